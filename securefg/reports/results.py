"""What a finished run left in its folder, read once and typed; the page is made of this."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from securefg.data.statistics import PartitionStatistics
from securefg.foundation.errors import RunFolderError
from securefg.methods.base import AnyMethod
from securefg.methods.registry import get_method
from securefg.privacy.ledger import Unit
from securefg.reports.bookings import Booked, read_bookings
from securefg.reports.findings import StoredFinding, read_stored_findings
from securefg.reports.traffic import Traffic, read_traffic
from securefg.run.folder import RunFolder, read_json_lines
from securefg.run.observing import RoundReport
from securefg.settings.config import RunConfig

Parsed = TypeVar("Parsed", bound=BaseModel)


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True)


class StoredClaim(_Stored):
    """`epsilon` None is infinity; `because` names the fields that make it so."""

    epsilon: float | None
    delta: float
    because: tuple[str, ...]


class LocalAccuracy(_Stored):
    """The released model on every client's own test nodes."""

    pooled: float | None
    mean_of_clients: float | None


class ByteCount(_Stored):
    payload: int
    envelope: int

    @property
    def total(self) -> int:
        return self.payload + self.envelope


class BothWays(_Stored):
    up: ByteCount
    down: ByteCount


class Recovered(_Stored):
    """What algebra recovers from the masked sums."""

    sessions: int
    smallest_cohort: int
    contributions_recoverable: int
    node_rows_recoverable: int | None


class Summary(_Stored):
    """The parts of `summary.json` that the page shows."""

    name: str
    method: str
    dataset: str
    seed: int
    rounds: int
    best_round: int
    stopped: str
    test_accuracy: float | None
    val_accuracy: float | None
    local_test_accuracy: LocalAccuracy | None
    bytes: BothWays
    dropped: int
    epsilon: dict[Unit, StoredClaim]
    noise_protects: bool
    recovered_by_algebra: Recovered | None = None
    seconds: float
    attempts: int
    device: str
    engine: str
    versions: dict[str, str]
    config_hash: str


@dataclass(frozen=True)
class Results:
    """A finished run. `resumed_after` has the last whole round before every later attempt;
    `findings` are None where it was not audited."""

    config: RunConfig
    method: AnyMethod
    summary: Summary
    rounds: tuple[RoundReport, ...]
    partition: PartitionStatistics
    booked: tuple[Booked, ...]
    traffic: Traffic
    resumed_after: tuple[int, ...]
    findings: tuple[StoredFinding, ...] | None = None


def read_results(folder: RunFolder) -> Results:
    """Raises where the run has not finished, or a file of its folder cannot be read."""
    folder.summary()  # raises with advice where the run has not finished
    summary = _parse(Summary, folder.path / "summary.json")
    partition = _parse(PartitionStatistics, folder.path / "partition.json")
    config = folder.config()
    attempts = read_json_lines(folder.path / "attempts.jsonl")
    return Results(
        config=config,
        method=get_method(config.method.name),
        summary=summary,
        rounds=_rounds(folder),
        partition=partition,
        booked=read_bookings(folder.ledger_path, partition.num_clients),
        traffic=read_traffic(folder.transcript),
        resumed_after=tuple(int(line["after_round"]) for line in attempts[1:]),
        findings=read_stored_findings(folder.path / "audit" / "findings.json"),
    )


def _rounds(folder: RunFolder) -> tuple[RoundReport, ...]:
    try:
        return tuple(RoundReport(**line) for line in folder.metrics())
    except TypeError as error:
        raise RunFolderError(f"{folder.metrics_path}: not a line of metrics: {error}") from error


def _parse(model: type[Parsed], path: Path) -> Parsed:
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise RunFolderError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise RunFolderError(f"{path}: {key}: {first['msg']}") from error
