"""Promises: what a run claims of itself, checked without any attack.

integrity   the transcript is the one that was recorded
books       ledger, plan, summary and transcript tell the same story
mechanisms  every epsilon that is claimed, beside the lower bound that the mechanism itself shows
recorded    the noise in the uploads that were recorded is the claimed noise
influence   nodes and edges of the run's data move no more than the method declares
canaries    where the run carries any, the lower bound that they show
exposure    where sums are sent, what follows from them by algebra alone
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from audits.books import reconcile_books
from audits.canary_audit import audit_canaries
from audits.exposure import audit_exposures
from audits.findings.record import Finding, Verdict
from audits.guessed_noise import Repeatable
from audits.influence import audit_influences
from audits.mechanisms.audit import audit_experiment
from audits.mechanisms.results import LawResult, Result
from audits.recorded import recorded_noise
from audits.truth import Truth
from audits.uploads import open_channel
from securefg.foundation.streams import derive_seed
from securefg.protocol.transcript import broken_link
from securefg.runs.assembly import prepare
from securefg.runs.execution import finite_or_none

Checks = Mapping[str, Callable[[], Iterable[Finding]]]


def list_checks(truth: Truth, trials: int, seed: int, thorough: bool = False) -> Checks:
    """Return the checks by name. Each runs on its own, so a check that breaks hides no other's
    finding."""
    return {
        "integrity": lambda: [check_integrity(truth)],
        "books": lambda: [reconcile_books(truth)],
        "mechanisms": lambda: audit_mechanisms(truth, trials, seed, thorough),
        "recorded": lambda: recorded_noise(truth),
        "influence": lambda: audit_influences(truth, seed, thorough),
        "canaries": lambda: audit_canaries(truth),
        "exposure": lambda: audit_exposures(truth, seed),
    }


def audit_mechanisms(truth: Truth, trials: int, seed: int, thorough: bool = False) -> list[Finding]:
    """Return a finding for every claimed epsilon beside what the noise itself shows, by games
    without training."""
    started = time.monotonic()
    results = _play_games(truth, trials, seed, thorough)
    each = round((time.monotonic() - started) / max(1, len(results)), 3)
    return [mechanism_finding(truth, result, each) for result in results]


def _play_games(truth: Truth, trials: int, seed: int, thorough: bool) -> list[Result]:
    """Return the results of all games against the mechanisms.

    A run with seeded noise claims nothing for itself. The mechanism that it stands for is played,
    with noise of the same size from a seed of the audit's own.
    """
    if truth.config.privacy.noise_rng == "system":
        return audit_experiment(truth.experiment, trials, seed, thorough=thorough)
    privacy = truth.config.privacy.model_copy(update={"noise_rng": "system"})
    meant = prepare(truth.config.model_copy(update={"privacy": privacy}))
    noise = Repeatable(derive_seed(seed, "mechanism games"))
    return audit_experiment(
        meant, trials, seed, lambda policy: open_channel(policy, noise), thorough
    )


def mechanism_finding(truth: Truth, result: Result, seconds: float) -> Finding:
    """Return the finding for one check of a mechanism."""
    shown: dict[str, Any] = (
        {"estimator": "law", "confidence": 1 - result.level, "targets": result.numbers}
        if isinstance(result, LawResult)
        else {
            "epsilon_lower": finite_or_none(result.lower),
            "epsilon_ceiling": finite_or_none(result.ceiling),
            "confidence": result.best.confidence,
            "estimator": result.best.estimator,
            "targets": result.best.trials,
        }
    )
    return Finding(
        adversary="server",
        attack=f"mechanism_{result.check}",
        method=truth.experiment.method.name,
        metric=f"epsilon of {result.field} over {result.rounds} of {result.planned} releases",
        unit=result.unit,
        verdict=Verdict(result.verdict),
        because=f"{result.field}: {result.because}",
        epsilon_claimed=finite_or_none(result.claimed),
        assumptions=(result.rule,),
        seconds=seconds,
        **shown,
    )


def check_integrity(truth: Truth) -> Finding:
    """Return whether the transcript is the recorded one, by its hash chain."""
    started = time.monotonic()
    broken = broken_link(truth.folder.transcript, truth.folder.summary().transcript_chain)
    return Finding(
        adversary="-",
        attack="integrity",
        method=truth.experiment.method.name,
        metric="hash chain of the transcript",
        unit="run",
        verdict=Verdict.VIOLATION if broken else Verdict.NOT_DETECTED,
        because=broken or "every message is the one that was recorded",
        assumptions=("the summary's last link was not forged along with the transcript",),
        seconds=round(time.monotonic() - started, 3),
    )
