"""Promises: what a run claims of itself, checked without any attack.

integrity   the transcript is the one that was recorded
mechanisms  every epsilon that is claimed, beside the lower bound that the mechanism itself shows
"""

from __future__ import annotations

import time

from audits.findings import Finding, Verdict
from audits.truth import Truth
from securefg.transcript import broken_link


def broken_promises(truth: Truth, trials: int, seed: int) -> list[Finding]:
    """A finding per promise."""
    return [integrity(truth)]


def integrity(truth: Truth) -> Finding:
    started = time.monotonic()
    broken = broken_link(truth.folder.transcript, truth.folder.summary().get("transcript_chain"))
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
