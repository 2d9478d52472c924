"""The transcript added up by kind of message: how many, how large, which bodies were kept."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from securefg.foundation.errors import RunFolderError
from securefg.protocol.codec import Clients
from securefg.protocol.transcript import Record, read_transcript


@dataclass(frozen=True)
class Kind:
    """All messages of one kind.

    messages         one per receiver
    records, kept    a broadcast is stored once, and its body may have been thinned out
    fields           in how many kept bodies a field was; counted for what went down alone
    """

    kind: str
    up: bool
    messages: int
    payload: int
    envelope: int
    records: int
    kept: int
    fields: dict[str, int]


@dataclass(frozen=True)
class Traffic:
    """`damage` says why the transcript could not be read to its end, where that is so."""

    kinds: tuple[Kind, ...] = ()
    drop_reasons: tuple[tuple[str, int], ...] = ()
    damage: str | None = None

    def bytes_sent(self, up: bool) -> int:
        return sum(kind.payload + kind.envelope for kind in self.kinds if kind.up == up)


@dataclass
class _Tally:
    up: bool
    counts: Counter[str] = field(default_factory=Counter)
    fields: Counter[str] = field(default_factory=Counter)

    def add(self, record: Record) -> None:
        self.counts["messages"] += len(record.receivers)
        self.counts["payload"] += record.payload
        self.counts["envelope"] += record.envelope
        self.counts["records"] += 1
        if not record.thinned:
            self.counts["kept"] += 1
            self.fields.update([] if record.up else record.fields().keys())

    def kind(self, name: str) -> Kind:
        counts = self.counts
        return Kind(
            kind=name,
            up=self.up,
            messages=counts["messages"],
            payload=counts["payload"],
            envelope=counts["envelope"],
            records=counts["records"],
            kept=counts["kept"],
            fields=dict(self.fields),
        )


def read_traffic(folder: Path) -> Traffic:
    """Sums over a transcript; a damaged or missing one is told of, not hidden."""
    tallies: dict[tuple[str, bool], _Tally] = {}
    reasons: Counter[str] = Counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for record in read_transcript(folder):
                _count(record, tallies, reasons)
            damage = _first(str(warning.message) for warning in caught)
        except RunFolderError as error:
            damage = str(error)
    kinds = tuple(tally.kind(name) for (name, _), tally in tallies.items())
    return Traffic(kinds, tuple(reasons.most_common()), damage)


def _count(record: Record, tallies: dict[tuple[str, bool], _Tally], reasons: Counter[str]) -> None:
    if record.kind == "dropped":
        reasons[record.note] += len(Clients.parse(record.clients))
        return
    tallies.setdefault((record.kind, record.up), _Tally(record.up)).add(record)


def _first(texts: Iterator[str]) -> str | None:
    return next(texts, None)
