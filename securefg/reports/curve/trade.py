"""Leakage against accuracy, and the settings that no other one beats in both."""

from __future__ import annotations

from collections.abc import Sequence

from securefg.reports.curve.marks import Marks, epsilon_cell, legend, limit_guides, of, run_cell
from securefg.reports.curve.words import (
    accuracy_words,
    by_whom,
    defence_words,
    gain_words,
    largest_leak,
    setting_words,
    short_signed,
    signed,
    whole_percent,
)
from securefg.reports.curve_data import CurveData, CurvePoint, Series
from securefg.reports.figures import Cell, Figure, Mark, Plot, Side, Table, draw_plot
from securefg.reports.units import percent

HEIGHT = 300.0


def trade_figure(data: CurveData, series: Series, marks: Marks) -> Figure:
    points = of(data, series.name, lambda p: p.accuracy is not None and gain(p) is not None)
    front = pareto(points)
    best = "; ".join(setting_words(point) for point in front) or "nothing"
    traces = marks.traces(points, lambda point: _mark(point, marks), joined=False)
    plot = Plot(
        label=f"Largest gain of any attack against accuracy, {series.name}. On the front: {best}.",
        x=Side("test accuracy", whole_percent, bounds=(0.0, 1.0)),
        y=Side("largest gain over the prior", short_signed),
        traces=traces,
        guides=limit_guides(data),
        front=tuple((_accuracy(point), gain(point) or 0.0) for point in front),
    )
    return Figure(
        "Leakage against accuracy",
        "Lower right is better. The line joins the Pareto front: no other setting has "
        "both more accuracy and less leakage.",
        draw_plot(plot, height=HEIGHT),
        legend(traces),
        table=_table(points, front),
        file=f"{series.name} leakage and accuracy",
    )


def pareto(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """Points that no other one beats in accuracy and in leakage, from left to right."""
    ordered = sorted(points, key=lambda p: (-_accuracy(p), gain(p) or 0.0))
    front: list[CurvePoint] = []
    for point in ordered:
        if not front or (gain(point) or 0.0) < (gain(front[-1]) or 0.0):
            front.append(point)
    return front[::-1]


def gain(point: CurvePoint) -> float | None:
    """The largest gain of any attack on this point."""
    leak = largest_leak(point)
    return None if leak is None or leak.gain is None else leak.gain.value


def _accuracy(point: CurvePoint) -> float:
    return point.accuracy.value if point.accuracy else 0.0


def _mark(point: CurvePoint, marks: Marks) -> Mark:
    leak = largest_leak(point)
    assert leak is not None
    assert leak.gain is not None
    assert point.accuracy is not None
    said = (
        f"{setting_words(point)}\naccuracy {accuracy_words(point.accuracy)}\n"
        f"largest gain {gain_words(leak)}\n{by_whom(leak)}"
    )
    return Mark(
        point.accuracy.value,
        leak.gain.value,
        said,
        f"#{marks.anchor(point)}",
        tone="chosen" if marks.is_chosen(point) else "",
    )


def _table(points: Sequence[CurvePoint], front: Sequence[CurvePoint]) -> Table:
    rows = []
    for point in points:
        leak = largest_leak(point)
        if leak is None or leak.gain is None:
            continue
        rows.append(
            (
                Cell(defence_words(point.defence), point.defence),
                epsilon_cell(point),
                Cell(percent(_accuracy(point)), repr(_accuracy(point))),
                Cell(signed(leak.gain.value), repr(leak.gain.value)),
                Cell(by_whom(leak), number=False),
                Cell("yes" if point in front else "no"),
                run_cell(point.runs),
            )
        )
    columns = ("setting", "epsilon", "accuracy", "largest gain", "of", "on the front", "runs")
    return Table(columns, tuple(rows))
