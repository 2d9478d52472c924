"""The monitored score against epsilon, and leakage against the score with its front."""

from __future__ import annotations

from collections.abc import Sequence

from audits.curves.marks import (
    Marks,
    epsilon_cell,
    epsilon_side,
    limit_guides,
    points_of,
    promised_epsilon,
    run_cell,
    trace_legend,
)
from securefg.foundation.interval import Interval
from securefg.foundation.units import percent
from securefg.reports.curve_data import CurveData, CurvePoint, RunRef, Series
from securefg.reports.figures.canvas import Cell, Figure, Table
from securefg.reports.figures.plot import Guide, Mark, Plot, Side, draw_plot
from securefg.reports.words import (
    accuracy_words,
    axis_percent,
    by_whom,
    capitalise_words,
    cut_interval,
    defence_words,
    gain_words,
    largest_leak,
    measured_whole,
    score_words,
    setting_words,
    short_signed,
    signed,
)

BROAD, HEIGHT = 640.0, 300.0


def accuracy_figure(data: CurveData, series: Series, marks: Marks) -> Figure:
    """Return the figure of the score at every promised epsilon, with the reference levels."""
    points = points_of(data, series.name, lambda point: point.accuracy is not None)
    lost = points_of(data, series.name, lambda point: bool(point.failed))
    traces = marks.defence_traces(points, lambda point: _accuracy_mark(point, marks))
    score = score_words(points)
    plot = Plot(
        label=f"{capitalise_words(score)} against epsilon, {series.name}. {_spoken_text(points)}",
        x=epsilon_side([*points, *lost]),
        y=Side(f"test {score}", axis_percent, bounds=(0.0, 1.0)),
        traces=traces,
        guides=tuple(_guide_lines(series)),
        lost=tuple((promised_epsilon(p), f"{setting_words(p)} failed: {p.failed}") for p in lost),
    )
    return Figure(
        f"{capitalise_words(score)} against epsilon",
        _caption_text(data, bool(lost)),
        draw_plot(plot, height=HEIGHT),
        trace_legend(traces),
        broad=draw_plot(plot, BROAD, HEIGHT),
        table=_accuracy_table(points, series),
        file=f"{series.name} {score}",
    )


def _accuracy_mark(point: CurvePoint, marks: Marks) -> Mark:
    assert point.accuracy is not None
    shown = cut_interval(point.accuracy)
    lines = [setting_words(point), f"{point.score} {accuracy_words(point.accuracy)}"]
    if len(point.accuracies) > 1:
        lines.append("seeds: " + ", ".join(percent(value) for value in point.accuracies))
    return Mark(
        promised_epsilon(point),
        shown.value,
        "\n".join(lines),
        f"#{marks.row_anchor(point)}",
        shown.low,
        shown.high,
        point.accuracies if len(point.accuracies) > 1 else (),
        "chosen" if marks.is_chosen(point) else "",
    )


def reference_levels(series: Series) -> list[tuple[str, Interval, tuple[RunRef, ...]]]:
    """Return the reference levels that are known, with their names and runs."""
    named = (
        ("centralised", series.centralised, series.centralised_runs),
        ("alone", series.alone, series.alone_runs),
    )
    return [(name, found, runs) for name, found, runs in named if found is not None]


def _guide_lines(series: Series) -> list[Guide]:
    return [
        Guide(f"{name} {percent(found.value)}", found.value, f"{name}: {accuracy_words(found)}")
        for name, found, _ in reference_levels(series)
    ]


def _caption_text(data: CurveData, lost: bool) -> str:
    seeds = (
        f"Means over {data.seeds} seeds with 95% intervals; dots are the seeds."
        if data.seeds > 1
        else "One seed."
    )
    crosses = " Crosses on the lower edge are points that failed." if lost else ""
    ring = " The ring marks the setting chosen." if any(c.point for c in data.choices) else ""
    return f"{seeds} At infinity nothing is promised.{ring}{crosses}"


def _spoken_text(points: Sequence[CurvePoint]) -> str:
    said = [f"{setting_words(p)}: {percent(p.accuracy.value)}." for p in points if p.accuracy]
    return " ".join(said) or "No point was run to its end."


def _accuracy_table(points: Sequence[CurvePoint], series: Series) -> Table:
    rows = [
        (
            Cell(defence_words(p.defence), p.defence),
            epsilon_cell(p),
            *_interval_cells(p.accuracy),
            run_cell(p.runs),
        )
        for p in points
        if p.accuracy is not None
    ]
    for name, found, runs in reference_levels(series):
        rows.append((Cell(name), Cell("–", ""), *_interval_cells(found), run_cell(runs)))
    columns = ("setting", "epsilon", score_words(points), "low", "high", "runs")
    return Table(columns, tuple(rows))


def _interval_cells(found: Interval) -> tuple[Cell, Cell, Cell]:
    shown = cut_interval(found)
    return (
        Cell(percent(found.value), repr(found.value)),
        Cell(percent(shown.low), repr(shown.low)),
        Cell(percent(shown.high), repr(shown.high)),
    )


def trade_figure(data: CurveData, series: Series, marks: Marks) -> Figure:
    """Return the figure of the largest gain of any attack against the score, with the Pareto
    front."""
    points = points_of(
        data, series.name, lambda p: p.accuracy is not None and largest_gain(p) is not None
    )
    front = pareto_points([point for point in points if measured_whole(point)])
    best = "; ".join(setting_words(point) for point in front) or "nothing"
    traces = marks.defence_traces(points, lambda point: _trade_mark(point, marks), joined=False)
    score = score_words(points)
    plot = Plot(
        label=f"Largest gain of any attack against {score}, {series.name}. On the front: {best}.",
        x=Side(f"test {score}", axis_percent, bounds=(0.0, 1.0)),
        y=Side("largest gain over the prior", short_signed, covered=(0.0,)),
        traces=traces,
        guides=limit_guides(data),
        front=tuple((_accuracy_value(point), largest_gain(point) or 0.0) for point in front),
    )
    return Figure(
        f"Leakage against {score}",
        "Lower right is better. The line joins the Pareto front: no other setting has "
        f"both a higher {score} and less leakage. A setting with a measurement that did not "
        "hold is not on it.",
        draw_plot(plot, height=HEIGHT),
        trace_legend(traces),
        table=_trade_table(points, front),
        file=f"{series.name} leakage and {score}",
    )


def pareto_points(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """Return the points that no other point beats in accuracy and in leakage, from left to
    right."""
    ordered = sorted(points, key=lambda p: (-_accuracy_value(p), largest_gain(p) or 0.0))
    front: list[CurvePoint] = []
    for point in ordered:
        if not front or (largest_gain(point) or 0.0) < (largest_gain(front[-1]) or 0.0):
            front.append(point)
    return front[::-1]


def largest_gain(point: CurvePoint) -> float | None:
    """Return the largest gain of any attack on this point, or None."""
    leak = largest_leak(point)
    return None if leak is None or leak.gain is None else leak.gain.value


def _accuracy_value(point: CurvePoint) -> float:
    return point.accuracy.value if point.accuracy else 0.0


def _trade_mark(point: CurvePoint, marks: Marks) -> Mark:
    leak = largest_leak(point)
    assert leak is not None
    assert leak.gain is not None
    assert point.accuracy is not None
    mark_text = (
        f"{setting_words(point)}\n{point.score} {accuracy_words(point.accuracy)}\n"
        f"largest gain {gain_words(leak)}\n{by_whom(leak)}"
    )
    return Mark(
        point.accuracy.value,
        leak.gain.value,
        mark_text,
        f"#{marks.row_anchor(point)}",
        tone="chosen" if marks.is_chosen(point) else "",
    )


def _trade_table(points: Sequence[CurvePoint], front: Sequence[CurvePoint]) -> Table:
    rows = []
    for point in points:
        leak = largest_leak(point)
        if leak is None or leak.gain is None:
            continue
        rows.append(
            (
                Cell(defence_words(point.defence), point.defence),
                epsilon_cell(point),
                Cell(percent(_accuracy_value(point)), repr(_accuracy_value(point))),
                Cell(signed(leak.gain.value), repr(leak.gain.value)),
                Cell(by_whom(leak), number=False),
                Cell("yes" if point in front else "no"),
                run_cell(point.runs),
            )
        )
    score = score_words(points)
    columns = ("setting", "epsilon", score, "largest gain", "of", "on the front", "runs")
    return Table(columns, tuple(rows))
