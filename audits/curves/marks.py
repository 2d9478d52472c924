"""Points of a curve as marks on a figure: one colour and shape per defence on the whole page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from securefg.reports.curve_data import CurveData, CurvePoint, RunRef
from securefg.reports.figures.canvas import Cell, LegendEntry
from securefg.reports.figures.plot import SHAPES, Guide, Mark, Side, Trace, sample
from securefg.reports.words import defence_words, named_defence, strength_text

_COLOURS = {"none": 7, "secagg": 1}
_SPARE = (2, 6)


class Marks:
    """A marking of the points of one curve, with the targets of their links."""

    def __init__(self, data: CurveData) -> None:
        self._defences = tuple(dict.fromkeys(point.defence for point in data.points))
        self._anchors = {point.key: f"point-{i}" for i, point in enumerate(data.points, 1)}
        self._chosen = {choice.point for choice in data.choices}

    def row_anchor(self, point: CurvePoint) -> str:
        """Return the id of the point's row in the table of all points."""
        return self._anchors[point.key]

    def is_chosen(self, point: CurvePoint) -> bool:
        """Return whether a series recommends the point."""
        return point.key in self._chosen

    def colour(self, defence: str) -> int:
        """Return the number of the defence's colour on this page."""
        found = named_defence(defence)
        known = found.colour if found else _COLOURS.get(defence)
        return known or _SPARE[self._defences.index(defence) % len(_SPARE)]

    def defence_traces(
        self,
        points: Iterable[CurvePoint],
        mark: Callable[[CurvePoint], Mark],
        joined: bool = True,
    ) -> tuple[Trace, ...]:
        """Return one trace per defence, from the smallest epsilon to infinity."""
        grouped: dict[str, list[Mark]] = {}
        for point in sorted(points, key=promised_epsilon):
            grouped.setdefault(point.defence, []).append(mark(point))
        return tuple(
            Trace(
                defence_words(defence),
                tuple(grouped[defence]),
                self.colour(defence),
                SHAPES[self._defences.index(defence) % len(SHAPES)],
                joined and len(grouped[defence]) > 1,
            )
            for defence in self._defences
            if defence in grouped
        )


def trace_legend(traces: Sequence[Trace]) -> tuple[LegendEntry, ...]:
    """Return a legend entry per trace."""
    return tuple(LegendEntry(trace.name, sample=sample(trace)) for trace in traces)


def points_of(data: CurveData, series: str, kept: Callable[[CurvePoint], bool]) -> list[CurvePoint]:
    """Return the points of a series that are kept."""
    return [point for point in data.points if point.series == series and kept(point)]


def promised_epsilon(point: CurvePoint) -> float:
    """Return the promised epsilon, or infinity if nothing is promised."""
    return math.inf if point.epsilon is None else point.epsilon


def epsilon_side(points: Sequence[CurvePoint]) -> Side:
    """Return the axis of promised epsilons. The values that were swept are written along it."""
    units = sorted({point.unit for point in points if point.unit})
    per = f" per {' or '.join(units)}" if units else ""
    swept = tuple(sorted({point.epsilon for point in points if point.epsilon is not None}))
    return Side(f"promised epsilon{per}", strength_text, True, swept)


def limit_guides(data: CurveData) -> tuple[Guide, ...]:
    """Return the guide of the limit on gains, or no guide if there is no limit."""
    limit = data.limits.leak_gain
    if limit is None:
        return ()
    return (Guide(f"limit {limit:g}", limit, f"limit: a gain of {limit:g}", "limit"),)


def epsilon_cell(point: CurvePoint) -> Cell:
    """Return the promised epsilon as a cell of a table."""
    raw = "inf" if point.epsilon is None else repr(point.epsilon)
    return Cell(strength_text(point.epsilon), raw)


def run_cell(runs: Sequence[RunRef]) -> Cell:
    """Return a cell with links to the runs that made the number."""
    return Cell(
        "",
        " ".join(run.folder for run in runs),
        tuple((f"seed {run.seed}", report_link(run)) for run in runs),
        number=False,
    )


def report_link(run: RunRef, anchor: str = "") -> str:
    """Return the address of a run's page, or of an anchor on it."""
    return f"runs/{run.folder}/report.html" + (f"#{anchor}" if anchor else "")
