"""Every point with the runs that made it."""

from __future__ import annotations

from dataclasses import dataclass

from securefg.reports.curve.bounds import is_broken
from securefg.reports.curve.marks import Marks, report_link
from securefg.reports.curve.words import (
    accuracy_words,
    by_whom,
    gain_words,
    largest_leak,
    setting_words,
)
from securefg.reports.curve_data import CurveData, CurvePoint, Timing
from securefg.reports.units import bytes_text, seconds_text, significant


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
