"""Charts as inline SVG: colours come from the page, so light and dark are one drawing."""

from __future__ import annotations

from securefg.reports.figures.bars import BarChart, Row, draw_bars
from securefg.reports.figures.figure import Figure, LegendEntry
from securefg.reports.figures.heat_map import HeatMap, draw_heat_map
from securefg.reports.figures.lines import LineChart, Series, draw_lines

__all__ = [
    "BarChart",
    "Figure",
    "HeatMap",
    "LegendEntry",
    "LineChart",
    "Row",
    "Series",
    "draw_bars",
    "draw_heat_map",
    "draw_lines",
]
