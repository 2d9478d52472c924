"""The uploads that algebra recovers from all masked sums of a run, over rounds and drop-outs.

Every sum that was opened is a linear equation in the survivors' uploads. Fields that never change
(`private(constant=True)`, and rows of probabilities that are sent whole and so add up to one) are
the same unknowns in every round.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from securefg.foundation.errors import ConfigError
from securefg.protocol.meanings import Holdings, Predictions
from securefg.protocol.messages import Message
from securefg.protocol.transcript import Record
from securefg.runs.assembly import Setup, with_truth
from securefg.runs.opened import Opened, is_census, read_opened
from securefg.runs.recovered_holders import HolderSums
from securefg.secagg.exposure import OpenedSum, Term, exposed_terms, num_exposed

Pattern = frozenset[int]


def recovered_by_algebra(experiment: Setup, records: Iterable[Record]) -> dict[str, Any] | None:
    """Return the figures for the summary of a masked run, whose server has no help, or None if
    nothing was masked."""
    if experiment.config.privacy.secure_aggregation is None:
        return None
    holders = HolderSums(experiment)
    opened = read_opened(experiment.method, records, holders.read)
    uploads, rows = count_exposures(experiment, opened)
    return {
        "sessions": len(opened),
        "smallest_cohort": min((len(one.clients) for one in opened), default=0),
        "contributions_recoverable": uploads,
        "node_rows_recoverable": rows,
        "holders_recoverable": holders.num_exposed(opened),
    }


def count_exposures(experiment: Setup, opened: Sequence[Opened]) -> tuple[int | None, int | None]:
    """Return how many single uploads, and rows of single nodes, follow from all sums together, or
    None if that is not known."""
    shaped = experiment.method.exposed_uploads
    if shaped is not None:  # the method's sums are no plain ones; each has a shape of its own
        own, public = experiment.config.method, experiment.public
        sets = {(one.round, one.clients) for one in opened}
        return sum(shaped(own, public, sorted(clients)) for _, clients in sets), 0
    try:
        exposed_terms = find_exposed(experiment, opened)
    except ConfigError:  # too large to be solved here; a server may have more memory
        return None, None
    uploads = {term for term in exposed_terms if term.part is None}
    known = with_truth(experiment) and all(rows_known(experiment, one) for one in opened)
    return num_exposed(uploads), num_exposed(exposed_terms - uploads) if known else None


def find_exposed(
    experiment: Setup, opened: Sequence[Opened], colluders: Collection[int] = ()
) -> set[Term]:
    """Return everything of honest clients that follows from all sums of a run, the colluders' own
    known."""
    released = {b"": None, **{_sum_key(one): one.asked.released for one in opened}}
    holders = {key: row_holders(experiment, rows) for key, rows in released.items()}
    sums = (x for one in opened for x in opened_sums(experiment, one, holders))
    return exposed_terms(sums, colluders)


def opened_sums(
    experiment: Setup, opened_record: Opened, holders: Mapping[bytes, dict[Pattern, int]]
) -> Iterator[OpenedSum]:
    """Yield the equations that one opened sum stands for. Rows of the same holders share an
    unknown. Rows that may have been let in are all taken to have been."""
    message = experiment.method.message(opened_record.kind)
    for name in experiment.policy.masks(message):
        if opened_record.fields is not None and name not in opened_record.fields:
            continue
        declaration = message.declarations[name]
        when = None if declaration.constant else opened_record.time(name)
        quantity = f"{opened_record.kind}.{name}"
        if not declaration.rows:
            yield {Term(client, quantity, when): 1.0 for client in opened_record.clients}
            continue
        counted = isinstance(declaration.meaning(experiment.config.method), Holdings)
        for pattern, count in holders[
            b"" if is_census(message) else _sum_key(opened_record)
        ].items():
            # Of a row it is known to be a holder's; of a count, nothing but who was asked.
            present = opened_record.clients if counted else pattern & opened_record.clients
            yield {Term(c, quantity, when, pattern, count): 1.0 for c in present}
            if _adds_up(experiment, message, name, opened_record):
                total = f"{quantity} added up"
                yield {Term(c, total, None, pattern, count): 1.0 for c in opened_record.clients}


def rows_known(experiment: Setup, opened_record: Opened) -> bool:
    """Return whether the records tell which rows were in a sum, and that they were not whole."""
    message = experiment.method.message(opened_record.kind)
    by_row = [n for n in experiment.policy.masks(message) if message.declarations[n].rows]
    if opened_record.fields is not None:
        by_row = [name for name in by_row if name in opened_record.fields]
    told = opened_record.fields is not None and opened_record.asked.released is not None
    return not by_row or is_census(message) or told or not experiment.policy.bare


def _sum_key(one: Opened) -> bytes:
    released = one.asked.released
    return b"" if released is None else released.numpy().tobytes()


def _adds_up(experiment: Setup, message: type[Message], name: str, one: Opened) -> bool:
    """Return whether a field's rows with all classes add up to what never changes."""
    meaning = message.declarations[name].meaning(experiment.config.method)
    whole = one.fields is not None and one.fields[name].width == experiment.public.num_classes
    return isinstance(meaning, Predictions) and whole


def row_holders(setup: Setup, released: Tensor | None = None) -> dict[Pattern, int]:
    """Return how many rows of a sum every set of clients has a say in together, of those
    released."""
    experiment = with_truth(setup)
    if experiment is None:
        return {}
    by_row: dict[int, set[int]] = defaultdict(set)
    for shard in experiment.shards:
        rows = experiment.method.rows_of(experiment.config.method, shard)
        if released is not None:
            rows = rows[released[rows]]
        for row in rows.tolist():
            by_row[row].add(shard.client)
    found: dict[Pattern, int] = defaultdict(int)
    for clients in by_row.values():
        found[frozenset(clients)] += 1
    return dict(found)
