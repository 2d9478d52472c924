"""Figures beside the tables: sweeps and clients as lines, rounds as curves, seeds as boxes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from papers.entry import Cell, Drawing, Measured
from papers.spreads import BoxChart, CategoryChart, Points, Spread, box, draw_boxes, draw_categories
from securefg.data.statistics import PartitionStatistics
from securefg.foundation.units import significant
from securefg.reports.figures.canvas import Figure, LegendEntry
from securefg.reports.figures.charts import LineChart, Series, draw_lines
from securefg.reports.run_figures import MAX_POINTS, partition_section
from securefg.runs.folder import RunFolder

Group = Callable[[str], str]


def first_word(row: str) -> str:
    return row.partition(" ")[0]


def over_columns(axis: str, caption: str, group: Group = first_word) -> Drawing:
    """A figure per group of rows, a line per row, its columns the places on the axis."""

    def draw(ours: Measured) -> list[Figure]:
        groups: dict[str, list[Cell]] = {}
        for cell in ours.cells:
            groups.setdefault(group(cell.row), []).append(cell)
        return [_lines_figure(ours, name, cells, axis, caption) for name, cells in groups.items()]

    return draw


def _lines_figure(
    ours: Measured, name: str, cells: Sequence[Cell], axis: str, caption: str
) -> Figure:
    places = tuple(dict.fromkeys(cell.column for cell in cells))
    rows = tuple(dict.fromkeys(cell.row for cell in cells))
    lines: list[Points] = []
    for colour, row in enumerate(rows, 1):
        row_cells = {cell.column: cell for cell in cells if cell.row == row}
        word = row.removeprefix(name).strip() or row
        values = tuple(_spread(ours, row_cells.get(place)) for place in places)
        lines.append(Points(word, values, 1 + (colour - 1) % 7))
        printed = tuple(_printed(row_cells.get(place)) for place in places)
        if any(value is not None for value in printed):
            lines.append(Points(f"{word}, paper", printed, 1 + (colour - 1) % 7, dashed=True))
    chart = CategoryChart(f"{name} by {axis}.", places, tuple(lines), significant, axis)
    legend = tuple(LegendEntry(line.name, line.style) for line in lines)
    return Figure(name, caption, draw_categories(chart), legend)


def _spread(ours: Measured, cell: Cell | None) -> Spread | None:
    found = None if cell is None else ours.estimate(cell)
    return None if found is None else Spread(found.mean, found.half_width)


def _printed(cell: Cell | None) -> Spread | None:
    return None if cell is None or cell.paper is None else Spread(cell.paper, cell.interval)


def over_rounds(
    metric: str, title: str, caption: str, columns: Sequence[str] | None = None
) -> Drawing:
    """A figure per row: a metric of every round, mean over the seeds, a line per column."""

    def draw(ours: Measured) -> list[Figure]:
        cells = [cell for cell in ours.cells if columns is None or cell.column in columns]
        rows = dict.fromkeys(cell.row for cell in cells)
        return [
            figure
            for row in rows
            if (figure := _curves(ours, [c for c in cells if c.row == row], metric, title, caption))
        ]

    return draw


def _curves(
    ours: Measured, cells: Sequence[Cell], metric: str, title: str, caption: str
) -> Figure | None:
    curve_points = [
        (cell.column, mean_by_round([cell.shown(r) for r in ours.runs(cell)], metric))
        for cell in cells
    ]
    return _curves_figure(f"{cells[0].row}: {title}", caption, curve_points)


def _curves_figure(
    name: str, caption: str, found: Sequence[tuple[str, list[float]]]
) -> Figure | None:
    known = [(line, curve) for line, curve in found if curve]
    if not known:
        return None
    last = max(len(curve) for _, curve in known)
    chosen = range(0, last, -(-last // MAX_POINTS))
    series = tuple(
        Series(line, tuple(_at(curve, index) for index in chosen), 1 + number % 7, number >= 4)
        for number, (line, curve) in enumerate(known)
    )
    chart = LineChart(f"{name} by round.", tuple(i + 1 for i in chosen), series, significant)
    legend = tuple(LegendEntry(one.name, one.style) for one in series)
    return Figure(name, caption, draw_lines(chart), legend)


def metrics_over_rounds(metrics: Mapping[str, str], title: str, caption: str) -> Drawing:
    """A figure per row with a line per metric, of the runs of its first column."""

    def draw(ours: Measured) -> list[Figure]:
        firsts = {cell.row: cell for cell in reversed(ours.cells)}
        drawn = []
        for row in dict.fromkeys(cell.row for cell in ours.cells):
            folders = [firsts[row].shown(runs) for runs in ours.runs(firsts[row])]
            found = [(name, mean_by_round(folders, key)) for name, key in metrics.items()]
            drawn.append(_curves_figure(f"{row}: {title}", caption, found))
        return [figure for figure in drawn if figure]

    return draw


def mean_by_round(folders: Sequence[RunFolder], metric: str) -> list[float]:
    """Up to the last round that all have reached."""
    runs = [[_metric(line, metric) for line in folder.metrics()] for folder in folders]
    return [math.fsum(values) / len(values) for values in zip(*runs, strict=False)]


def _metric(line: Mapping[str, Any], name: str) -> float:
    """One of a round's figures, or of those that its method adds."""
    return float(line[name] if name in line else line["extra"][name])


def _at(curve: Sequence[float], index: int) -> float | None:
    return curve[index] if index < len(curve) else None


def over_seeds(title: str, caption: str) -> Drawing:
    """A box plot: a box per row of the values that the seeds gave, in the first column."""

    def draw(ours: Measured) -> list[Figure]:
        values = [(cell.row, [cell.read(runs) for runs in ours.runs(cell)]) for cell in ours.cells]
        boxes = tuple(box(name, found) for name, found in values if found)
        chart = BoxChart(f"{title}, a box per method.", boxes, significant)
        return [Figure(title, caption, draw_boxes(chart))] if boxes else []

    return draw


def partitions(ours: Measured) -> list[Figure]:
    """How the first seed dealt the nodes: nodes, labels and degrees per client."""
    figures: list[Figure] = []
    for name in dict.fromkeys(first_word(cell.row) for cell in ours.cells):
        runs = [r for c in ours.cells if first_word(c.row) == name for r in ours.runs(c)[:1]]
        if runs:
            stored = (runs[0][0].path / "partition.json").read_bytes()
            section = partition_section(PartitionStatistics.model_validate_json(stored), False)
            figures += [
                replace(figure, title=f"{name}: {figure.title}") for figure in section.figures
            ]
    return figures
