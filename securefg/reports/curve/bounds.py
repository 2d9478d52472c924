"""The measured lower bound on epsilon against the claim: a claim below it is refuted."""

from __future__ import annotations

from collections.abc import Sequence

from securefg.reports.curve.marks import Marks, legend, of, run_cell
from securefg.reports.curve.words import setting_words
from securefg.reports.curve_data import CurveData, CurvePoint, Series
from securefg.reports.figures import Cell, Figure, Mark, Plot, Side, Table, draw_plot
from securefg.reports.units import significant

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


def is_tested(point: CurvePoint) -> bool:
    """A finite, positive claim and a measurement to hold against it."""
    return bool(point.epsilon_claimed) and point.epsilon_lower is not None


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
