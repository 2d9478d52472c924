"""The files that a finished run left in its folder, read once and typed. The pages are made of
this."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audits.findings.history import require_as_it_ended
from audits.findings.record import Finding
from audits.findings.stored import findings_of
from securefg.data.statistics import PartitionStatistics
from securefg.foundation.errors import RunFolderError
from securefg.foundation.json_text import read_bounded
from securefg.foundation.settings import explain_fault
from securefg.methods.base import AnyMethod
from securefg.methods.registry import get_method
from securefg.privacy.ledger import Mechanism, Release, read_ledger
from securefg.protocol.codec import Clients
from securefg.protocol.transcript import Record, read_transcript
from securefg.runs.folder import RunFolder, read_json_lines
from securefg.runs.metrics_file import most_told
from securefg.runs.observing import RoundReport
from securefg.runs.reconcile import first_unbooked
from securefg.runs.summary import ClaimedEpsilon, Summary
from securefg.settings.config import RunConfig


@dataclass(frozen=True)
class Booked:
    """A sum of all releases of one field under one protection.

    mechanism      as booked; `num_rows` is the largest, since clients may differ in it
    num_clients    how many clients released it
    fewest, most   releases per client, among those that released it at all
    """

    mechanism: Mechanism
    releases: int
    num_clients: int
    fewest: int
    most: int
    first_round: int
    last_round: int


class _Bookings:
    def __init__(self, num_clients: int) -> None:
        self.counts: NDArray[np.int64] = np.zeros(num_clients, dtype=np.int64)
        self.rounds: set[int] = set()
        self.num_rows = 1

    def add(self, release: Release) -> None:
        for low, high in release.clients.ranges:
            self.counts[low:high] += 1
        self.rounds.add(release.round)
        self.num_rows = max(self.num_rows, release.mechanism.num_rows)

    def booked(self, mechanism: Mechanism) -> Booked:
        active = self.counts[self.counts > 0]
        return Booked(
            mechanism=replace(mechanism, num_rows=self.num_rows),
            releases=int(active.sum()),
            num_clients=len(active),
            fewest=int(active.min()),
            most=int(active.max()),
            first_round=min(self.rounds),
            last_round=max(self.rounds),
        )


def read_bookings(path: Path, num_clients: int) -> tuple[Booked, ...]:
    """Return sums over a ledger file, in the order in which the fields first left."""
    tallies: dict[Mechanism, _Bookings] = {}
    for release in read_ledger(path):
        if not len(release.clients):
            continue
        size = max(num_clients, _beyond_clients(release.clients))
        key = replace(release.mechanism, num_rows=1)
        tallies.setdefault(key, _Bookings(size)).add(release)
    return tuple(tally.booked(mechanism) for mechanism, tally in tallies.items())


def _beyond_clients(clients: Clients) -> int:
    return max(high for _, high in clients.ranges)


@dataclass
class Kind:
    """A sum of all messages of one kind.

    messages         one per receiver
    records, kept    a broadcast is stored once, and its body may have been thinned out
    fields           in how many kept bodies a field was; counted for what went down alone
    """

    kind: str
    up: bool
    messages: int = 0
    payload: int = 0
    envelope: int = 0
    records: int = 0
    kept: int = 0
    fields: Counter[str] = field(default_factory=Counter)

    def add(self, record: Record) -> None:
        """Count one record of the transcript."""
        self.messages += len(record.receivers)
        self.payload += record.payload
        self.envelope += record.envelope
        self.records += 1
        if not record.thinned:
            self.kept += 1
            self.fields.update([] if record.up else record.fields().keys())


@dataclass(frozen=True)
class Traffic:
    """A sum of all messages. `damage` says why the transcript could not be read to its end, if
    so."""

    kinds: tuple[Kind, ...] = ()
    drop_reasons: tuple[tuple[str, int], ...] = ()
    damage: str | None = None

    def bytes_sent(self, up: bool) -> int:
        """Return payload and envelopes of all messages in one direction."""
        return sum(kind.payload + kind.envelope for kind in self.kinds if kind.up == up)


def read_traffic(folder: Path) -> Traffic:
    """Return sums over a transcript. A damaged or missing transcript is reported, not hidden."""
    kinds: dict[tuple[str, bool], Kind] = {}
    reasons: Counter[str] = Counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for record in read_transcript(folder):
                if record.kind == "dropped":  # of nobody: a masked ask that opened nothing
                    reasons.update([record.note] * len(Clients.parse(record.clients)))
                else:
                    key = (record.kind, record.up)
                    kinds.setdefault(key, Kind(*key)).add(record)
            damage = next((str(warning.message) for warning in caught), None)
        except RunFolderError as error:
            damage = str(error)
    return Traffic(tuple(kinds.values()), tuple(reasons.most_common()), damage)


@dataclass(frozen=True)
class Results:
    """A finished run. `resumed_after` has the last whole round before every later attempt.
    `findings` are None where it was not audited."""

    config: RunConfig
    method: AnyMethod
    summary: Summary
    rounds: tuple[RoundReport, ...]
    partition: PartitionStatistics
    booked: tuple[Booked, ...]
    traffic: Traffic
    resumed_after: tuple[int, ...]
    findings: tuple[Finding, ...] | None = None


def read_results(folder: RunFolder) -> Results:
    """Return the results. Raise RunFolderError if the run has not finished, or a file of its folder
    cannot be read."""
    summary, rounds = folder.summary(), rounds_of(folder)
    _require_what_was_told(folder, summary, rounds)
    _require_books(folder)
    partition = _read_partition(folder.path / "partition.json")
    require_as_it_ended(folder.path)
    config = folder.config()
    attempts = folder.path / "attempts.jsonl"
    return Results(
        config=config,
        method=get_method(config.method.name),
        summary=summary,
        rounds=rounds,
        partition=partition,
        booked=read_bookings(folder.ledger_path, partition.num_clients),
        traffic=read_traffic(folder.transcript),
        resumed_after=_resumed_after(attempts),
        findings=findings_of(folder.path, summary.transcript_chain),
    )


def _resumed_after(path: Path) -> tuple[int, ...]:
    found: list[Any] = [line.get("after_round") for line in read_json_lines(path)[1:]]
    if not all(type(after) is int and 0 <= after < 2**31 for after in found):
        raise RunFolderError(f"{path}: not the attempts of a run")
    return tuple(found)


def _require_what_was_told(
    folder: RunFolder, summary: Summary, rounds: tuple[RoundReport, ...]
) -> None:
    """Raise RunFolderError if the summary tells a smaller epsilon than any round did: it was
    changed."""
    claims: dict[str, ClaimedEpsilon] = dict(summary.epsilon.items())
    for unit, least in most_told(line.epsilon for line in rounds).items():
        claim = claims.get(unit)
        found = 0.0 if claim is None else math.inf if claim.epsilon is None else claim.epsilon
        if not found >= least * (1 - 1e-9):
            raise RunFolderError(
                f"{folder.path}/summary.json: an epsilon per {unit} of {found:.4g}; "
                f"metrics.jsonl tells of {least:.4g}"
            )


def _require_books(folder: RunFolder) -> None:
    """Raise RunFolderError if the ledger lacks what was recorded. The page would say that less was
    sent."""
    try:
        lost = first_unbooked(folder)
    except RunFolderError:  # of a damaged transcript the page tells: `traffic.damage`
        return
    if lost is not None:
        raise RunFolderError(f"{folder.ledger_path}: {lost}")


def rounds_of(folder: RunFolder) -> tuple[RoundReport, ...]:
    """Read the metrics of every round. Raise `RunFolderError` for a faulty line."""
    try:
        return tuple(RoundReport(**line) for line in folder.metrics())
    except TypeError as error:
        raise RunFolderError(f"{folder.metrics_path}: not a line of metrics: {error}") from error


def _read_partition(path: Path) -> PartitionStatistics:
    try:
        return PartitionStatistics.model_validate_json(read_bounded(path))
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path}: {explain_fault(error)}") from error
