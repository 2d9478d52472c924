"""The numbers of a chart as CSV, for its download."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from securefg.reports.figures.bars import BarChart
from securefg.reports.figures.heat_map import HeatMap
from securefg.reports.figures.lines import LineChart


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


def line_numbers(chart: LineChart) -> str:
    columns = ("round", *(series.name for series in chart.series))
    values = zip(*(series.values for series in chart.series), strict=True)
    return csv_text(columns, ((r, *v) for r, v in zip(chart.rounds, values, strict=True)))


def bar_numbers(chart: BarChart) -> str:
    first = chart.axis or chart.row_word
    return csv_text((first, *chart.parts), ((row.label, *row.values) for row in chart.rows))


def map_numbers(chart: HeatMap) -> str:
    columns = (chart.row_word, *(f"{chart.axis} {name}" for name in chart.columns))
    rows = zip(chart.rows, chart.values, strict=True)
    return csv_text(columns, ((name, *values) for name, values in rows))
