"""The measured lower bound on epsilon against the claim, and what each defence costs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from securefg.foundation.units import bytes_text, seconds_text, significant
from securefg.reports.curve.data import CurveData, CurvePoint, Series, Timing
from securefg.reports.curve.marks import Marks, legend, of, run_cell
from securefg.reports.curve.words import defence_words, setting_words
from securefg.reports.figures.bars import BarChart, Row, draw_bars
from securefg.reports.figures.canvas import Cell, Figure, Table
from securefg.reports.figures.plot import Mark, Plot, Side, draw_plot

HEIGHT = 320.0


def bounds_figure(data: CurveData, series: Series, marks: Marks) -> Figure | None:
    """None where no claim was tested."""
    points = of(
        data, series.name, lambda p: bool(p.epsilon_claimed) and p.epsilon_lower is not None
    )
    if not points:
        return None
    broken = sum(is_broken(point) for point in points)
    verdict = f"{broken} of {len(points)} above the claim" if broken else "none above the claim"
    traces = marks.traces(points, lambda point: _mark(point, marks), joined=False)
    plot = Plot(
        label=f"Measured lower bound against claimed epsilon, {series.name}: {verdict}.",
        x=Side("claimed epsilon", significant, True),
        y=Side("measured lower bound", significant, True),
        traces=traces,
        diagonal=True,
    )
    return Figure(
        "Measured against claimed epsilon",
        f"{verdict[:1].upper()}{verdict[1:]}. At every setting the mechanism that comes nearest "
        "to its claim is shown.",
        draw_plot(plot, height=HEIGHT),
        legend(traces),
        table=_table(points),
        file=f"{series.name} epsilon measured and claimed",
    )


def is_broken(point: CurvePoint) -> bool:
    """A promise was found broken here, or the measured bound lies above the claim."""
    above = (
        point.epsilon_lower is not None
        and point.epsilon_claimed is not None
        and point.epsilon_lower > point.epsilon_claimed
    )
    return above or bool(point.violations)


def _mark(point: CurvePoint, marks: Marks) -> Mark:
    assert point.epsilon_claimed is not None
    assert point.epsilon_lower is not None
    lines = [
        setting_words(point),
        f"claimed {significant(point.epsilon_claimed)}",
        f"measured at least {significant(point.epsilon_lower)}",
        *point.violations,
    ]
    return Mark(
        point.epsilon_claimed,
        point.epsilon_lower,
        "\n".join(lines),
        f"#{marks.anchor(point)}",
        tone="bad" if is_broken(point) else "",
    )


def _table(points: Sequence[CurvePoint]) -> Table:
    rows = tuple(
        (
            Cell(setting_words(point), point.key, number=False),
            Cell(significant(point.epsilon_claimed or 0), repr(point.epsilon_claimed)),
            Cell(significant(point.epsilon_lower or 0), repr(point.epsilon_lower)),
            Cell("refuted" if is_broken(point) else "holds"),
            run_cell(point.runs),
        )
        for point in points
    )
    return Table(("setting", "claimed", "measured lower bound", "claim", "runs"), rows)


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
