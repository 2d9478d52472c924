"""Bars: one row per client or bin, its parts one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from markupsafe import Markup

from securefg.foundation.units import number
from securefg.reports.figures.canvas import WIDTH, Scale, canvas, element, every, text_width, title

LABEL_HEIGHT = 13.0


def _whole(value: float) -> str:
    return number(round(value))


@dataclass(frozen=True)
class Row:
    """`colour` is that of all its parts; 0: every part has its own."""

    label: str
    values: tuple[float, ...]
    colour: int = 0


@dataclass(frozen=True)
class BarChart:
    """`parts` names the values of a row, in the order of the colours."""

    label: str
    rows: tuple[Row, ...]
    parts: tuple[str, ...]
    row_word: str = "client"
    axis: str = ""
    text: Callable[[float], str] = _whole


def draw_bars(chart: BarChart) -> Markup:
    pitch = 24.0 if len(chart.rows) <= 12 else max(6.0, 300 / len(chart.rows))
    totals = [sum(row.values) for row in chart.rows]
    left = 10 + text_width([row.label for row in chart.rows])
    right = WIDTH - 8 - text_width([chart.text(total) for total in totals])
    x = Scale(0, max(totals, default=0) or 1, left, right)
    top = 18.0 if chart.axis else 4.0
    parts = [element("text", chart.axis, class_="axis", x=0, y=11)] if chart.axis else []
    step = every(len(chart.rows), pitch * len(chart.rows), LABEL_HEIGHT)
    for index, row in enumerate(chart.rows):
        parts += _row(chart, row, x, top + index * pitch, pitch, index % step == 0)
    return canvas(top + pitch * len(chart.rows) + 4, chart.label, parts)


def _row(
    chart: BarChart, row: Row, x: Scale, top: float, pitch: float, labelled: bool
) -> Iterator[Markup]:
    thickness, middle = pitch * 0.7, top + pitch / 2 + 4
    if labelled:
        yield element("text", row.label, x=x.start - 6, y=middle, text_anchor="end")
    if pitch >= LABEL_HEIGHT:
        yield element("text", chart.text(sum(row.values)), x=x(sum(row.values)) + 5, y=middle)
    bars, before = [title(_numbers(chart, row))], 0.0
    for colour, value in enumerate(row.values, 1):
        width = x(before + value) - x(before)
        if value:
            place = {"x": x(before), "y": top + (pitch - thickness) / 2}
            style = f"bar s{row.colour or colour}"
            bars.append(element("rect", class_=style, **place, width=width, height=thickness))
        before += value
    yield element("g", *bars, class_="mark")


def _numbers(chart: BarChart, row: Row) -> str:
    lines = [
        f"{name}: {chart.text(value)}" for name, value in zip(chart.parts, row.values, strict=True)
    ]
    return "\n".join([f"{chart.row_word} {row.label}", *lines])
