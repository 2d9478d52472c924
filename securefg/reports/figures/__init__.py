"""Charts as inline SVG: colours come from the page, so light and dark are one drawing."""

from __future__ import annotations

from securefg.reports.figures.bars import BarChart, Row, draw_bars
from securefg.reports.figures.boxes import Box, BoxChart, Scatter, box, draw_boxes, draw_scatter
from securefg.reports.figures.canvas import Cell, Figure, LegendEntry, Table
from securefg.reports.figures.categories import CategoryChart, Points, Spread, draw_categories
from securefg.reports.figures.heat_map import HeatMap, draw_heat_map
from securefg.reports.figures.lines import LineChart, Series, draw_lines
from securefg.reports.figures.numbers import bar_numbers, csv_text, line_numbers, map_numbers
from securefg.reports.figures.plot import (
    SHAPES,
    Guide,
    Mark,
    Plot,
    Side,
    Trace,
    draw_plot,
    sample,
)

__all__ = [
    "SHAPES",
    "BarChart",
    "Box",
    "BoxChart",
    "CategoryChart",
    "Cell",
    "Figure",
    "Guide",
    "HeatMap",
    "LegendEntry",
    "LineChart",
    "Mark",
    "Plot",
    "Points",
    "Row",
    "Scatter",
    "Series",
    "Side",
    "Spread",
    "Table",
    "Trace",
    "bar_numbers",
    "box",
    "csv_text",
    "draw_bars",
    "draw_boxes",
    "draw_categories",
    "draw_heat_map",
    "draw_lines",
    "draw_plot",
    "draw_scatter",
    "line_numbers",
    "map_numbers",
    "sample",
]
