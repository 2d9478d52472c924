"""A forest plot of gains: every attack's gain with its interval on one axis, the worst first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from securefg.reports.curve.words import VERDICT_WORDS, adversary_words, attack_words, signed
from securefg.reports.findings_section import finding_anchor
from securefg.reports.worst import ranked
from securefg.run.findings import Finding


@dataclass(frozen=True)
class ForestRow:
    """Places on the axis are percents of its width."""

    anchor: str
    name: str
    verdict: str
    tone: str
    figures: str
    low: float
    width: float
    dot: float


@dataclass(frozen=True)
class Forest:
    rows: tuple[ForestRow, ...]
    zero: float
    ticks: tuple[tuple[float, str], ...]


def forest(findings: Sequence[Finding] | None) -> Forest | None:
    """None where no gain was measured."""
    shown = [f for f in ranked(findings or ()) if f.gain is not None]
    if not shown:
        return None
    low = min(-0.1, *(f.gain.low for f in shown if f.gain))
    high = max(0.1, *(f.gain.high for f in shown if f.gain))
    low, high = max(-1.0, low), min(1.0, high)

    def place(value: float) -> float:
        return round(100 * (min(max(value, low), high) - low) / (high - low), 2)

    step = 0.5 if high - low > 1 else 0.2 if high - low > 0.5 else 0.1
    marks = [k * step for k in range(-10, 11) if low <= k * step <= high]
    return Forest(
        rows=tuple(_row(f, place) for f in shown),
        zero=place(0),
        ticks=tuple((place(mark), "0" if mark == 0 else signed(mark)) for mark in marks),
    )


def _row(one: Finding, place: Callable[[float], float]) -> ForestRow:
    assert one.gain is not None
    by = "" if one.adversary == "-" else f", {adversary_words(one.adversary)}"
    return ForestRow(
        anchor=finding_anchor(one.attack, one.adversary),
        name=f"{attack_words(one.attack)}{by}",
        verdict=VERDICT_WORDS.get(one.verdict, one.verdict),
        tone=one.verdict.lower(),
        figures=f"{signed(one.gain.value)} ({signed(one.gain.low)} to {signed(one.gain.high)})",
        low=place(one.gain.low),
        width=round(place(one.gain.high) - place(one.gain.low), 2),
        dot=place(one.gain.value),
    )
