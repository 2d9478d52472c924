"""The sums that a transcript says were opened: whose, of what, and the request each answers.

A message is read once and let go: its content stays as digests, and which rows it released.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from securefg.methods.base import AnyMethod
from securefg.protocol import codec
from securefg.protocol.codec import Clients
from securefg.protocol.messages import Message
from securefg.protocol.transcript import Record
from securefg.secagg.messages import REDO

SUM = ".sum"
NOTHING = ""
"""The digest of zeros, which say nothing of what stays the same."""


@dataclass(frozen=True)
class SummedField:
    """A summed field.

    width   its last axis
    digest  of its content, the same for the same bytes
    """

    width: int
    digest: str


@dataclass(frozen=True)
class Asked:
    """A request: the rows that it let into sums, and a digest of all its arrays if none was for
    single clients and its content was kept."""

    digest: str | None
    released: Tensor | None


@dataclass(frozen=True)
class Opened:
    """A sum that the server has.

    when    stands for all rounds in which the same was asked for, by field; the round by default
    fields  those in it, or None where no record of its kind kept its content
    """

    kind: str
    round: int
    clients: frozenset[int]
    fields: Mapping[str, SummedField] | None
    asked: Asked
    when: Mapping[str, int | None]

    def time(self, field: str) -> int | None:
        """Return the round of the field's value, or None if it never changes."""
        return self.when.get(field, self.round)


Reader = Callable[[Opened, Mapping[str, Tensor]], None]
"""Is shown each opened sum with its values, where a record kept them."""


def read_opened(
    method: AnyMethod, records: Iterable[Record], reader: Reader | None = None
) -> list[Opened]:
    """Return every opened sum of a transcript, all attempts included."""
    kinds = {message.kind for message in method.every_message}
    last: dict[tuple[int, int], Asked] = {}
    of_kind: dict[str, Asked] = {}
    opened_records: list[Opened] = []
    for record in records:
        kind = record.kind.removeprefix(REDO)
        if record.sender == "server" and kind in kinds:
            asked = _asked_request(method, kind, record)
            if asked.released is None and kind in of_kind:  # clients hold a run to what was told
                asked = replace(asked, released=of_kind[kind].released)
            last[record.attempt, record.round] = of_kind[kind] = asked
        elif record.sender == "sum":
            asked = last.get((record.attempt, record.round), Asked(None, None))
            opened_records.append(_read_opened(record, asked))
            if reader is not None and not record.thinned and record.body:
                reader(opened_records[-1], _record_arrays(record))
    return _with_times(
        [replace(one, fields=_kept_fields(one, opened_records)) for one in opened_records]
    )


def is_census(message: type[Message]) -> bool:
    """Return whether a message holds only constants, of which everybody's rows are counted."""
    return all(d.constant for d in message.declarations.values() if d.is_private)


def _read_opened(record: Record, asked: Asked) -> Opened:
    fields = None
    if not record.thinned and record.body:
        fields = {name: _summed_field(array) for name, array in _record_arrays(record).items()}
    clients = frozenset(Clients.parse(record.clients).numbers())
    return Opened(record.kind.removesuffix(SUM), record.round, clients, fields, asked, {})


def _record_arrays(record: Record) -> dict[str, Tensor]:
    return {name: x for name, x in record.fields().items() if isinstance(x, Tensor)}


def _summed_field(array: Tensor) -> SummedField:
    return SummedField(array.shape[-1] if array.dim() else 1, _array_digest(array))


def _asked_request(method: AnyMethod, kind: str, record: Record) -> Asked:
    if record.thinned or not record.body:
        return Asked(None, None)
    declared = method.message(kind).declarations
    arrays = _record_arrays(record)
    released = [x for n, x in arrays.items() if declared[n].limits_rows]
    shared = None if record.personal else _hash_arrays(arrays)
    return Asked(shared, released[0] if released else None)


def _kept_fields(opened_record: Opened, every: list[Opened]) -> Mapping[str, SummedField] | None:
    """Return the fields of a sum. A thinned sum has the fields that others of its kind had, and
    nobody knows their content."""
    if opened_record.fields is not None:
        return opened_record.fields
    others = [other.fields for other in every if other.kind == opened_record.kind and other.fields]
    together = {name: field for fields in others for name, field in fields.items()}
    return {n: replace(field, digest=NOTHING) for n, field in together.items()} or None


def _with_times(opened: list[Opened]) -> list[Opened]:
    """Return the sums with the rounds of their values.

    Rounds in which the same was asked for have the same values, unless two sums over the same
    clients show otherwise. A field whose sums over the same clients do not change over rounds with
    other requests never changes.
    """
    by_field: dict[tuple[str, str], list[Opened]] = defaultdict(list)
    for opened_record in opened:
        for name in opened_record.fields or {}:
            by_field[opened_record.kind, name].append(opened_record)
    times: dict[int, dict[str, int | None]] = defaultdict(dict)
    for (_, name), sums in by_field.items():
        for opened_record, time in zip(sums, _field_times(name, sums), strict=True):
            times[id(opened_record)][name] = time
    return [replace(one, when=times[id(one)]) for one in opened]


def _field_times(name: str, sums: list[Opened]) -> list[int | None]:
    if _sum_stays(name, sums):
        return [None] * len(sums)
    alike: dict[str, list[Opened]] = defaultdict(list)
    for one in sums:
        if one.asked.digest is not None:
            alike[one.asked.digest].append(one)
    first = {d: some[0].round for d, some in alike.items() if not _sum_changes(name, some)}
    times = [(one.asked.digest, one.round) for one in sums]
    return [round if digest is None else first.get(digest, round) for digest, round in times]


def _sum_stays(name: str, sums: list[Opened]) -> bool:
    seen: dict[tuple[frozenset[int], str], int] = {}
    for one in sums:
        digest = _field_content(one, name)
        if digest != NOTHING and seen.setdefault((one.clients, digest), one.round) != one.round:
            return True
    return False


def _sum_changes(name: str, sums: list[Opened]) -> bool:
    """Return whether any two over the same clients, of different rounds, are known to differ."""
    seen: dict[frozenset[int], str] = {}
    contents = [(one.clients, _field_content(one, name)) for one in sums]
    return any(
        digest != NOTHING and seen.setdefault(clients, digest) != digest
        for clients, digest in contents
    )


def _field_content(one: Opened, name: str) -> str:
    return NOTHING if one.fields is None else one.fields[name].digest


def _array_digest(array: Tensor) -> str:
    return _hash_arrays({"": array}) if bool(array.any()) else NOTHING


def _hash_arrays(arrays: Mapping[str, Tensor]) -> str:
    named = {name: arrays[name] for name in sorted(arrays)}
    return hashlib.sha256(codec.encode_fields(named)).hexdigest()
