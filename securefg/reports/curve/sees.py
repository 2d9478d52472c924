"""What each party sees: per setting and adversary, what was recovered and how sure we are."""

from __future__ import annotations

from dataclasses import dataclass

from securefg.reports.curve.marks import Marks, of, report_link
from securefg.reports.curve.words import (
    adversary_words,
    attack_words,
    gain_words,
    setting_words,
)
from securefg.reports.curve_data import CurveData, CurvePoint, Leak, Series
from securefg.reports.units import significant


@dataclass(frozen=True)
class Seen:
    """One attack's result. `tone` is the verdict in lower case."""

    tone: str
    strength: str
    attack: str
    words: str
    because: str
    link: str


@dataclass(frozen=True)
class Line:
    setting: str
    anchor: str
    failed: str
    cells: tuple[tuple[Seen, ...], ...]


@dataclass(frozen=True)
class Sight:
    series: str
    adversaries: tuple[str, ...]
    lines: tuple[Line, ...]


def sights(data: CurveData, marks: Marks) -> tuple[Sight, ...]:
    return tuple(_sight(data, series, marks) for series in data.series)


def _sight(data: CurveData, series: Series, marks: Marks) -> Sight:
    points = of(data, series.name, lambda point: True)
    names = tuple(dict.fromkeys(leak.adversary for point in points for leak in point.leaks))
    lines = tuple(_line(point, names, marks) for point in points)
    shown = tuple(adversary_words(name)[:1].upper() + adversary_words(name)[1:] for name in names)
    return Sight(series.name, shown, lines)


def _line(point: CurvePoint, adversaries: tuple[str, ...], marks: Marks) -> Line:
    cells = tuple(
        tuple(_seen(point, leak) for leak in point.leaks if leak.adversary == name)
        for name in adversaries
    )
    return Line(setting_words(point), marks.anchor(point), point.failed, cells)


def _seen(point: CurvePoint, leak: Leak) -> Seen:
    link = report_link(point.runs[0], "findings") if point.runs else ""
    return Seen(
        leak.verdict.lower(),
        strength(leak),
        attack_words(leak.attack),
        _words(leak),
        leak.because,
        link,
    )


def strength(leak: Leak) -> str:
    """How much, and how sure, in a few words."""
    if leak.verdict == "VIOLATION":
        return "promise broken"
    if leak.verdict == "INCONCLUSIVE":
        return "not known"
    if leak.verdict == "NOT_DETECTED":
        return "not detected"
    sure = "" if leak.gain is None or leak.gain.low > 0 else ", not in every seed"
    return _amount(leak) + sure


def _amount(leak: Leak) -> str:
    """By the share of what could still be gained over the prior, where the metric ends at 1."""
    if leak.gain is None or leak.value is None or leak.prior is None:
        return "leak"
    if leak.prior >= 1 or not 0 <= leak.value.value <= 1:
        return "leak"
    share = leak.gain.value / (1 - leak.prior)
    for floor, words in ((0.9, "all but complete"), (0.5, "most of it"), (0.1, "a part")):
        if share >= floor:
            return words
    return "a trace"


def _words(leak: Leak) -> str:
    if leak.gain is None or leak.value is None:
        return leak.because
    reached = f"{significant(leak.value.value)} ({leak.metric})"
    prior = "" if leak.prior is None else f"; {significant(leak.prior)} is known without the run"
    return f"per {leak.unit or 'run'}: {reached}{prior}; gain {gain_words(leak)}"
