"""Bytes and seconds per defence."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from securefg.reports.curve.marks import Marks, of, run_cell
from securefg.reports.curve.words import defence_words
from securefg.reports.curve_data import CurveData, CurvePoint, Series, Timing
from securefg.reports.figures import BarChart, Cell, Figure, Row, Table, draw_bars
from securefg.reports.units import bytes_text, seconds_text


def cost_figures(data: CurveData, timing: Timing, series: Series, marks: Marks) -> Iterator[Figure]:
    """Sent up, sent down, time; none of what is not known at any point."""
    points = of(data, series.name, lambda point: not point.failed)
    for title, value, text, caption in _kinds(timing):
        known = [point for point in points if value(point) is not None]
        if known:
            yield _figure(title, caption, known, value, text, series, marks)


def _kinds(
    timing: Timing,
) -> tuple[tuple[str, Callable[[CurvePoint], float | None], Callable[[float], str], str], ...]:
    all_clients = "of all clients together, in one run, envelopes included"
    return (
        ("Sent up", lambda p: p.bytes_up, bytes_text, f"Bytes {all_clients}."),
        ("Sent down", lambda p: p.bytes_down, bytes_text, f"Bytes {all_clients}."),
        (
            "Time",
            lambda p: timing.seconds.get(p.key),
            seconds_text,
            "Seconds of one run on the machine named below; differs from one making to the next.",
        ),
    )


def _figure(
    title: str,
    caption: str,
    points: Sequence[CurvePoint],
    value: Callable[[CurvePoint], float | None],
    text: Callable[[float], str],
    series: Series,
    marks: Marks,
) -> Figure:
    defences = dict.fromkeys(point.defence for point in points)
    means = {
        defence: statistics.fmean(value(p) or 0.0 for p in points if p.defence == defence)
        for defence in defences
    }
    rows = tuple(Row(defence_words(d), (mean,), marks.colour(d)) for d, mean in means.items())
    said = ", ".join(f"{defence_words(d)} {text(mean)}" for d, mean in means.items())
    chart = BarChart(f"{title}, {series.name}: {said}.", rows, (title.lower(),), "", text=text)
    table = tuple(
        (
            Cell(p.key, number=False),
            Cell(text(value(p) or 0.0), repr(value(p))),
            run_cell(p.runs),
        )
        for p in points
    )
    strengths = " Means over all strengths of a defence." if len(points) > len(means) else ""
    return Figure(
        title,
        caption + strengths,
        draw_bars(chart),
        table=Table(("point", title.lower(), "runs"), table),
        file=f"{series.name} {title}",
    )
