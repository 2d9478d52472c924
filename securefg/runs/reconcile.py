"""Checks that a run's folder fits together, before the run goes on.

Ledger, transcript, metrics and checkpoints speak of the same releases. If one of them shows more
than the ledger does, releases are missing from the books and every epsilon would be too small: the
run is not taken up, and the error names what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from securefg.federation.journal import (
    check_against_records,
    check_none_missing,
    recorded_outcomes,
)
from securefg.foundation.errors import RunFolderError
from securefg.foundation.log import first_link, read_log
from securefg.privacy.accountants import Claim
from securefg.privacy.ledger import LOG, Ledger, Release, read_ledger
from securefg.protocol.transcript import Record, checked_records
from securefg.runs.checkpoint import Progress, proven_progress
from securefg.runs.folder import RunFolder
from securefg.runs.metrics_file import most_told

Booked = tuple[int, int, int, str, str]
"""Attempt, round, step, field and clients of a release."""


@dataclass(frozen=True)
class Surviving:
    """A record of how far the records go: where the whole transcript ends, and the last attempt
    booked."""

    transcript_end: int
    attempts: int


def reconcile_records(
    folder: RunFolder,
    done: int,
    num_clients: int,
    claims: Callable[[Ledger], Iterable[Claim]],
    resent: bool,
) -> Surviving:
    """Raise `RunFolderError` where the records contradict one another.

    done    the round from which the run goes on
    resent  whether later rounds send the same bytes again, so that their records may go
    """
    states = proven_progress(folder.checkpoints)[::-1]  # the newest knows of most
    releases = list(read_ledger(folder.ledger_path))
    _check_ledger(folder, states)
    end = _check_transcript(folder, states, {_booked_key(r) for r in releases}, resent)
    check_opened(folder, done)
    _check_metrics(folder, done)
    _check_told(folder, num_clients, releases, claims)
    return Surviving(end, max((release.attempt for release in releases), default=0))


def check_opened(folder: RunFolder, done: int | None = None) -> int:
    """Return how many opened sums the folder keeps. Raise an error if the transcript has others.

    done  the round from which the run goes on: no opened sum after it may have been deleted, since
          clients would refuse to be asked again, and the round would be lost
    """
    outcomes = recorded_outcomes(record for _, record in checked_records(folder.transcript))
    kept = check_against_records(folder.opened, outcomes)
    if done is not None:
        ended = {line["round"] for line in folder.metrics()}
        check_none_missing(folder.opened, outcomes, done, ended)
    return kept


def _check_ledger(folder: RunFolder, states: list[Progress]) -> None:
    links = [first_link(LOG), *(link for _, link in read_log(folder.ledger_path, LOG))]
    for state in states:
        wanted, found = state.ledger_lines, len(links) - 1
        if found < wanted:
            raise RunFolderError(
                f"{folder.ledger_path}: {wanted - found} of {wanted} releases are missing that "
                f"were booked before the checkpoint of round {state.round}{_ANEW}"
            )
        if links[wanted] != state.ledger_link:
            raise RunFolderError(
                f"{folder.ledger_path}: not the ledger that the checkpoint of round {state.round} "
                f"was written with{_ANEW}"
            )


def _check_transcript(
    folder: RunFolder, states: list[Progress], booked: set[Booked], resent: bool
) -> int:
    links, end, last_round = {0: ""}, 0, 0
    for end, record in checked_records(folder.transcript):
        links[end], last_round = record.chain, max(last_round, record.round)
        lost = _unbooked_release(record, booked)
        if lost is not None:
            raise RunFolderError(f"{folder.ledger_path}: {lost}{_ANEW}")
    for state in states:
        if state.transcript_position > end or (
            state.transcript_position
            and links.get(state.transcript_position) != state.transcript_link
        ):
            raise RunFolderError(
                f"{folder.transcript}: messages are missing that were recorded before the "
                f"checkpoint of round {state.round}{_ANEW}"
            )
    told = max((line["round"] for line in folder.metrics()), default=0)
    if not resent and told > last_round:
        raise RunFolderError(
            f"{folder.transcript}: the messages of round {told} are missing, of which "
            f"metrics.jsonl tells{_ANEW}"
        )
    return end


def first_unbooked(folder: RunFolder) -> str | None:
    """Return the first release that the transcript has and the ledger lacks, or None if all are
    there."""
    booked = {_booked_key(release) for release in read_ledger(folder.ledger_path)}
    found = (_unbooked_release(record, booked) for _, record in checked_records(folder.transcript))
    return next((lost for lost in found if lost is not None), None)


def _unbooked_release(record: Record, booked: set[Booked]) -> str | None:
    for field in record.rules:
        key = (record.attempt, record.round, record.step, field, record.clients)
        if key not in booked:
            name = f"{record.kind}.{field} by clients {record.clients}"
            return f"{name} of round {record.round} was recorded in the transcript, and is missing"
    return None


def _check_metrics(folder: RunFolder, done: int) -> None:
    there = {line["round"] for line in folder.metrics()}
    missing = next((round for round in range(1, done + 1) if round not in there), None)
    if missing is not None:
        raise RunFolderError(
            f"{folder.metrics_path}: round {missing} is missing; the checkpoint is of round "
            f"{done}{_ANEW}"
        )


def _check_told(
    folder: RunFolder,
    num_clients: int,
    releases: list[Release],
    claims: Callable[[Ledger], Iterable[Claim]],
) -> None:
    """Raise RunFolderError if an epsilon that was told of a round is above what the ledger adds up
    to."""
    metrics = folder.metrics()
    if not metrics:
        return
    ledger = Ledger(num_clients)
    ledger.record(releases)
    claimed_epsilons: dict[str, float] = {claim.unit: claim.epsilon for claim in claims(ledger)}
    for unit, least in most_told(line["epsilon"] for line in metrics).items():
        if claimed_epsilons.get(unit, 0.0) < least * (1 - 1e-9):
            raise RunFolderError(
                f"{folder.ledger_path}: its releases add up to an epsilon per {unit} of "
                f"{claimed_epsilons.get(unit, 0.0):.4g}; metrics.jsonl tells of {least:.4g}{_ANEW}"
            )


def _booked_key(release: Release) -> Booked:
    field = release.mechanism.field.partition(".")[2]
    return release.attempt, release.round, release.step, field, str(release.clients)


_ANEW = "; restore the file, or start the run anew with --fresh"
