"""What algebra alone recovers from all masked sums of a run, over rounds, attempts and drop-outs.

Every sum that was opened is a linear equation in the survivors' uploads. Fields that never change
(`private(constant=True)`, and rows of probabilities that are sent whole and so add up to one) are
the same unknowns in every round.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from torch import Tensor

from securefg.protocol.codec import Clients
from securefg.protocol.meanings import Holdings, Predictions
from securefg.protocol.messages import Message
from securefg.protocol.transcript import Record
from securefg.run.assembly import Experiment
from securefg.secagg.run_exposure import OpenedSum, Term, exposed_terms, num_exposed

Pattern = frozenset[int]


def recovered_by_algebra(
    experiment: Experiment, records: Iterable[Record]
) -> dict[str, Any] | None:
    """For the summary of a masked run; None where nothing was masked."""
    if experiment.config.privacy.secure_aggregation is None:
        return None
    opened = [record for record in records if record.sender == "sum"]
    cohorts = [len(Clients.parse(record.clients)) for record in opened]
    uploads, rows = exposures(experiment, opened)
    return {
        "sessions": len(opened),
        "smallest_cohort": min(cohorts, default=0),
        "contributions_recoverable": uploads,
        "node_rows_recoverable": rows if experiment.has_truth else None,
    }


def exposures(
    experiment: Experiment, opened: Iterable[Record], colluders: Collection[int] = ()
) -> tuple[int, int]:
    """How many single uploads, and rows of single nodes, follow from all sums together."""
    listed = list(opened)
    shaped = experiment.method.exposed_uploads
    if shaped is not None:  # the method's sums are no plain ones; each has a shape of its own
        own, public = experiment.config.method, experiment.public
        sets = {(record.round, record.clients) for record in listed}
        return sum(shaped(own, public, Clients.parse(c).numbers()) for _, c in sets), 0
    found = exposed(experiment, listed, colluders)
    uploads = {term for term in found if term.part is None}
    return num_exposed(uploads), num_exposed(found - uploads)


def exposed(
    experiment: Experiment, opened: Iterable[Record], colluders: Collection[int] = ()
) -> set[Term]:
    """Whatever of honest clients follows from all sums of a run, the colluders' own known."""
    listed = list(opened)
    holders, sent = node_holders(experiment), _sent(listed)
    sums = [
        one
        for record in listed
        for one in opened_sums(experiment, record, holders, sent.get(record.kind))
    ]
    return exposed_terms(sums, colluders)


def opened_sums(
    experiment: Experiment,
    record: Record,
    holders: dict[Pattern, int],
    sent: Mapping[str, int] | None = None,
) -> Iterator[OpenedSum]:
    """The equations that one opened sum stands for. Nodes of the same holders share an unknown.

    sent  the fields that were in it and how wide, where any record of its kind kept its content
    """
    kind = record.kind.removesuffix(".sum")
    message = experiment.method.message(kind)
    survivors = set(Clients.parse(record.clients).numbers())
    for name in experiment.policy.masks(message):
        if sent is not None and name not in sent:
            continue
        declaration = message.declarations[name]
        when = None if declaration.constant else record.round
        quantity = f"{kind}.{name}"
        if not declaration.rows:
            yield {Term(client, quantity, when): 1.0 for client in survivors}
            continue
        counted = isinstance(declaration.meaning(experiment.config.method), Holdings)
        for pattern, count in holders.items():
            if not released(experiment, message, pattern):
                continue
            # Of a row it is known to be a holder's; of a count, nothing but who was asked.
            present = survivors if counted else pattern & survivors
            yield {Term(c, quantity, when, pattern, count): 1.0 for c in present}
            if _adds_up(experiment, message, name, sent):
                total = f"{quantity} added up"
                yield {Term(c, total, None, pattern, count): 1.0 for c in survivors}


def _sent(opened: Iterable[Record]) -> dict[str, dict[str, int]]:
    """By kind, the last axis of every field that was ever in it."""
    found: dict[str, dict[str, int]] = {}
    for record in opened:
        if not record.thinned and record.body:
            sums = {n: x for n, x in record.fields().items() if isinstance(x, Tensor)}
            of_kind = found.setdefault(record.kind, {})
            of_kind |= {n: x.shape[-1] if x.dim() else 1 for n, x in sums.items()}
    return found


def released(experiment: Experiment, message: type[Message], pattern: Pattern) -> bool:
    """A census counts everybody's nodes; other rows leave from `min_holders` holders on."""
    census = all(d.constant for d in message.declarations.values() if d.is_private)
    return census or len(pattern) >= experiment.policy.min_holders


def _adds_up(
    experiment: Experiment, message: type[Message], name: str, sent: Mapping[str, int] | None
) -> bool:
    """Rows with all classes add up to what never changes."""
    meaning = message.declarations[name].meaning(experiment.config.method)
    whole = sent is not None and sent.get(name) == experiment.public.num_classes
    return isinstance(meaning, Predictions) and whole


def node_holders(experiment: Experiment) -> dict[Pattern, int]:
    """How many nodes every set of clients holds together."""
    if not experiment.has_truth:
        return {}
    by_node: dict[int, set[int]] = defaultdict(set)
    for client, nodes in enumerate(experiment.partition.clients):
        for node in nodes.tolist():
            by_node[node].add(client)
    found: dict[Pattern, int] = defaultdict(int)
    for clients in by_node.values():
        found[frozenset(clients)] += 1
    return dict(found)
