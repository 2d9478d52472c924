"""Findings made up for tests, written as an audit writes them."""

from __future__ import annotations

from pathlib import Path

from audits.findings.file import FindingsFile
from audits.findings.record import Finding, Verdict
from securefg.foundation.interval import Interval
from securefg.runs.folder import RunFolder

ODD = "</td><script>alert(1)</script>"


def figure(value: float) -> Interval:
    return Interval(value=value, low=value - 0.03, high=value + 0.03)


def check(field: str, lower: float) -> Finding:
    broken = lower > 4.2
    return Finding(
        adversary="server",
        attack="mechanism_canary",
        method="fedgl",
        metric=f"epsilon of Update.{field}",
        unit="row",
        verdict=Verdict.VIOLATION if broken else Verdict.NOT_DETECTED,
        because=f"epsilon {lower} was shown; claimed are 4.2",
        epsilon_claimed=4.2,
        epsilon_lower=lower,
    )


def attack(gain: float, verdict: Verdict) -> Finding:
    return Finding(
        adversary="client:1,5",
        attack="similar_links",
        method="fedgl",
        metric="AUC over pairs",
        unit="edge",
        verdict=verdict,
        because=f"{ODD} {gain:+.3f} over the prior",
        value=figure(0.5 + gain),
        prior=figure(0.5),
        gain=figure(gain),
        null=figure(0.5),
        positive=figure(0.19),
        targets=1200,
        assumptions=("knows the split",),
    )


def audited(run: Path, *findings: Finding) -> Path:
    about = {"record": RunFolder(run).summary().transcript_chain}
    file = FindingsFile.begin(run / "audit", about, anew=True)
    file.add(findings)
    file.close({})
    return run
