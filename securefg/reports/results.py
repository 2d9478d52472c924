"""What a finished run left in its folder, read once and typed; the page is made of this."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from securefg.data.statistics import PartitionStatistics
from securefg.foundation.errors import RunFolderError
from securefg.foundation.json_text import read_bounded
from securefg.foundation.settings import explain_fault
from securefg.methods.base import AnyMethod
from securefg.methods.registry import get_method
from securefg.reports.bookings import Booked, read_bookings
from securefg.reports.traffic import Traffic, read_traffic
from securefg.run.findings import Finding
from securefg.run.folder import RunFolder, read_json_lines
from securefg.run.history import require_as_it_ended
from securefg.run.metrics_file import most_told
from securefg.run.observing import RoundReport
from securefg.run.reconcile import unbooked
from securefg.run.stored_findings import findings_of
from securefg.run.summary import ClaimedEpsilon, Summary
from securefg.settings.config import RunConfig

Parsed = TypeVar("Parsed", bound=BaseModel)


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
    findings: tuple[Finding, ...] | None = None


def read_results(folder: RunFolder) -> Results:
    """Raises where the run has not finished, or a file of its folder cannot be read."""
    summary, rounds = folder.summary(), rounds_of(folder)
    _require_what_was_told(folder, summary, rounds)
    _require_books(folder)
    partition = _parse(PartitionStatistics, folder.path / "partition.json")
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
    """A summary that tells a smaller epsilon than any round did was changed."""
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
    """A page on a ledger that lacks what was recorded would say that less was sent."""
    try:
        lost = unbooked(folder)
    except RunFolderError:  # of a damaged transcript the page tells: `traffic.damage`
        return
    if lost is not None:
        raise RunFolderError(f"{folder.ledger_path}: {lost}")


def rounds_of(folder: RunFolder) -> tuple[RoundReport, ...]:
    try:
        return tuple(RoundReport(**line) for line in folder.metrics())
    except TypeError as error:
        raise RunFolderError(f"{folder.metrics_path}: not a line of metrics: {error}") from error


def _parse(model: type[Parsed], path: Path) -> Parsed:
    try:
        return model.model_validate_json(read_bounded(path))
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path}: {explain_fault(error)}") from error
