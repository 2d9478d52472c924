"""What each party sees: per setting and adversary, what was recovered and how sure we are."""

from __future__ import annotations

from dataclasses import dataclass

from securefg.reports.curve.marks import Marks, of, report_link
from securefg.reports.curve.words import (
    VERDICT_WORDS,
    adversary_words,
    attack_words,
    gain_words,
    setting_words,
)
from securefg.reports.curve_data import CurveData, CurvePoint, Leak, Series
from securefg.reports.findings import finding_anchor
from securefg.reports.units import significant


@dataclass(frozen=True)
class Seen:
    """One attack's result.

    tone    the verdict in lower case
    much    half of what could be gained, or more, or a promise broken
    links   to the findings, one per seed
    """

    tone: str
    strength: str
    much: bool
    attack: str
    words: str
    links: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Line:
    setting: str
    anchor: str
    failed: str
    cells: tuple[tuple[Seen, ...], ...]


@dataclass(frozen=True)
class Sight:
    """`measures` has (attack, unit, metric): what its numbers mean."""

    series: str
    adversaries: tuple[str, ...]
    lines: tuple[Line, ...]
    measures: tuple[tuple[str, str, str], ...]


def sights(data: CurveData, marks: Marks) -> tuple[Sight, ...]:
    return tuple(_sight(data, series, marks) for series in data.series)


def _sight(data: CurveData, series: Series, marks: Marks) -> Sight:
    points = of(data, series.name, lambda point: True)
    names = tuple(dict.fromkeys(leak.adversary for point in points for leak in point.leaks))
    lines = tuple(_line(point, names, marks) for point in points)
    shown = tuple(adversary_words(name)[:1].upper() + adversary_words(name)[1:] for name in names)
    every = [leak for point in points for leak in point.leaks]
    measures = {attack_words(leak.attack): (leak.unit or "run", leak.metric) for leak in every}
    meant = tuple((attack, *meaning) for attack, meaning in measures.items())
    return Sight(series.name, shown, lines, meant)


def _line(point: CurvePoint, adversaries: tuple[str, ...], marks: Marks) -> Line:
    cells = tuple(
        tuple(_seen(point, leak) for leak in point.leaks if leak.adversary == name)
        for name in adversaries
    )
    return Line(setting_words(point), marks.anchor(point), point.failed, cells)


def _seen(point: CurvePoint, leak: Leak) -> Seen:
    anchor = finding_anchor(leak.attack, leak.adversary)
    return Seen(
        tone=leak.verdict.lower(),
        strength=strength(leak),
        much=strength(leak) in ("recovered", "mostly recovered", "promise broken"),
        attack=attack_words(leak.attack),
        words=_words(leak),
        links=tuple((f"seed {run.seed}", report_link(run, anchor)) for run in point.runs),
    )


def strength(leak: Leak) -> str:
    """How much was recovered, in a few words."""
    if leak.verdict != "LEAK":
        return VERDICT_WORDS.get(leak.verdict, leak.verdict)
    if leak.gain is None or leak.value is None or leak.prior is None:
        return "leak"
    if leak.prior >= 1 or not 0 <= leak.value.value <= 1:
        return "leak"  # a metric that does not end at 1 says nothing about shares
    share = leak.gain.value / (1 - leak.prior)
    for floor, words in ((0.9, "recovered"), (0.5, "mostly recovered"), (0.1, "partly recovered")):
        if share >= floor:
            return words
    return "a trace"


def _words(leak: Leak) -> str:
    """The numbers, and how sure they are."""
    if leak.gain is None or leak.value is None:
        return leak.because
    before = "" if leak.prior is None else f"{significant(leak.prior)} → "
    doubt = "; seeds disagree" if leak.verdict == "LEAK" and leak.gain.low <= 0 else ""
    return f"{before}{significant(leak.value.value)}, gain {gain_words(leak)}{doubt}"
