"""Heat maps: the stronger a cell, the larger its share; numbers in the cells where they fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from securefg.foundation.units import number
from securefg.reports.figures.canvas import (
    CHARACTER,
    WIDTH,
    Scale,
    canvas,
    coordinate,
    element,
    every,
    text_width,
    title,
)

TOP, LABEL_HEIGHT = 34.0, 13.0
LEVELS = 16
MAX_TOOLTIPS = 600
# Beyond this opacity the text in a cell would lose its contrast.
STRONGEST = 0.7

Cell = tuple[int, int]


@dataclass(frozen=True)
class HeatMap:
    """values   what the cells say
    shares      how strong they are, relative to the largest
    """

    label: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[int, ...], ...]
    shares: tuple[tuple[float, ...], ...]
    axis: str
    row_word: str = "client"


def draw_heat_map(chart: HeatMap) -> Markup:
    left = 10 + text_width(list(chart.rows))
    width = (WIDTH - left) / len(chart.columns)
    height = 24.0 if len(chart.rows) <= 12 else max(5.0, 300 / len(chart.rows))
    x = Scale(0, len(chart.columns), left, WIDTH)
    y = Scale(0, len(chart.rows), TOP, TOP + height * len(chart.rows))
    parts = [
        element("text", chart.axis, class_="axis", x=left, y=11),
        *_labels(chart, x, y),
        *_levels(chart, x, y),
        *(_numbers(chart, x, y) if _fits(chart, width, height) else ()),
        *(_tooltips(chart, x, y) if _cells(chart) <= MAX_TOOLTIPS else ()),
    ]
    return canvas(y.end + 2, chart.label, parts)


def _cells(chart: HeatMap) -> int:
    return len(chart.rows) * len(chart.columns)


def _fits(chart: HeatMap, width: float, height: float) -> bool:
    longest = max(len(number(value)) for row in chart.values for value in row)
    return height >= LABEL_HEIGHT + 3 and width >= longest * CHARACTER + 4


def _labels(chart: HeatMap, x: Scale, y: Scale) -> Iterator[Markup]:
    needed = text_width(list(chart.columns)) + 6
    step = every(len(chart.columns), x.end - x.start, needed)
    for index in range(0, len(chart.columns), step):
        yield element("text", chart.columns[index], x=x(index + 0.5), y=27, text_anchor="middle")
    step = every(len(chart.rows), y.end - y.start, LABEL_HEIGHT)
    for index in range(0, len(chart.rows), step):
        place = y(index + 0.5) + 4
        yield element("text", chart.rows[index], x=x.start - 6, y=place, text_anchor="end")


def _levels(chart: HeatMap, x: Scale, y: Scale) -> Iterator[Markup]:
    """One path for all cells of a shade: thousands of cells stay a small file."""
    largest = max(share for row in chart.shares for share in row) or 1.0
    by_level: dict[int, list[Cell]] = {}
    for i, row in enumerate(chart.shares):
        for j, share in enumerate(row):
            by_level.setdefault(round(share / largest * LEVELS), []).append((i, j))
    gap = 1.0 if len(chart.columns) <= 24 else 0.0
    for level, cells in sorted(by_level.items()):
        strokes = "".join(_square(i, j, x, y, gap) for i, j in cells)
        opacity = f"{0.04 + (STRONGEST - 0.04) * level / LEVELS:.3f}"
        yield element("path", class_="heat", fill_opacity=opacity, d=strokes)


def _square(i: int, j: int, x: Scale, y: Scale, gap: float) -> str:
    across, down = coordinate(x(j + 1) - x(j) - gap), coordinate(y(i + 1) - y(i) - gap)
    return f"M{coordinate(x(j))} {coordinate(y(i))}h{across}v{down}h-{across}z"


def _numbers(chart: HeatMap, x: Scale, y: Scale) -> Iterator[Markup]:
    for i, row in enumerate(chart.values):
        for j, value in enumerate(row):
            place = {"x": x(j + 0.5), "y": y(i + 0.5) + 4}
            yield element("text", number(value), class_="cell", **place, text_anchor="middle")


def _tooltips(chart: HeatMap, x: Scale, y: Scale) -> Iterator[Markup]:
    for i, row in enumerate(chart.values):
        for j, value in enumerate(row):
            text = f"{chart.row_word} {chart.rows[i]}, {chart.axis} {chart.columns[j]}: {value:,}"
            place = {"x": x(j), "y": y(i), "width": x(1) - x(0), "height": y(1) - y(0)}
            yield element("rect", title(text), class_="hit", **place)
