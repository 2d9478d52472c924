"""Every point with the runs that made it, and what each party sees at it."""

from __future__ import annotations

from dataclasses import dataclass

from securefg.foundation.units import bytes_text, seconds_text, significant
from securefg.reports.curve.bounds import is_broken
from securefg.reports.curve.data import CurveData, CurvePoint, Leak, Series, Timing
from securefg.reports.curve.marks import Marks, report_link
from securefg.reports.curve.words import (
    VERDICT_WORDS,
    accuracy_words,
    adversary_words,
    attack_words,
    by_whom,
    gain_words,
    largest_leak,
    setting_words,
    signed,
)
from securefg.reports.findings_section import finding_anchor


@dataclass(frozen=True)
class PointRow:
    anchor: str
    series: str
    setting: str
    failed: str
    accuracy: str
    spread: str
    gain: str
    gain_spread: str
    gain_by: str
    bounds: str
    broken: bool
    violations: tuple[str, ...]
    promises: bool
    claims: tuple[tuple[str, str], ...]
    beside: str
    up: str
    down: str
    time: str
    runs: tuple[tuple[str, str], ...]


def point_rows(data: CurveData, timing: Timing, marks: Marks) -> tuple[PointRow, ...]:
    return tuple(_row(point, timing, marks) for point in data.points)


def failures(data: CurveData) -> tuple[tuple[str, str, str], ...]:
    """(series, setting, reason) of what is missing."""
    return tuple((p.series, setting_words(p), p.failed) for p in data.points if p.failed)


def violations(data: CurveData) -> tuple[tuple[str, str, str], ...]:
    """(series, setting, in words) of promises that were found broken."""
    return tuple(
        (point.series, setting_words(point), words)
        for point in data.points
        for words in point.violations
    )


def _row(point: CurvePoint, timing: Timing, marks: Marks) -> PointRow:
    leak = largest_leak(point)
    accuracy = accuracy_words(point.accuracy) if point.accuracy else "–"
    gain = gain_words(leak) if leak else "–"
    seconds = timing.seconds.get(point.key)
    return PointRow(
        anchor=marks.anchor(point),
        series=point.series,
        setting=setting_words(point),
        failed=point.failed,
        accuracy=_head(accuracy),
        spread=_tail(accuracy),
        gain=_head(gain),
        gain_spread=_tail(gain),
        gain_by=by_whom(leak) if leak else "",
        bounds=_bounds(point),
        broken=is_broken(point),
        violations=point.violations,
        promises=point.epsilon is not None and bool(point.claims),
        claims=tuple((unit, claim.bound(unit)) for unit, claim in point.claims.items()),
        beside="; ".join(dict.fromkeys(w for c in point.claims.values() for w in c.not_covered)),
        up="–" if point.bytes_up is None else bytes_text(point.bytes_up),
        down="–" if point.bytes_down is None else bytes_text(point.bytes_down),
        time="–" if seconds is None else seconds_text(seconds),
        runs=tuple((f"seed {run.seed}", report_link(run)) for run in point.runs),
    )


def _bounds(point: CurvePoint) -> str:
    if point.epsilon_claimed is None or point.epsilon_lower is None:
        return "–"
    return f"{significant(point.epsilon_lower)} of {significant(point.epsilon_claimed)}"


def _head(words: str) -> str:
    """The value, without its interval."""
    return words.partition(" (")[0]


def _tail(words: str) -> str:
    return words.partition(" (")[2].rstrip(")")


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
    points = [point for point in data.points if point.series == series.name]
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
    basis = f", {leak.basis}" if leak.basis else ""
    most = leak.most_exposed
    exposed = "" if most is None else f"; most exposed target {signed(most)}"
    return f"{before}{significant(leak.value.value)}, gain {gain_words(leak)}{basis}{exposed}"
