"""Box plots, and points in the plane coloured by class."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from securefg.reports.figures.canvas import (
    WIDTH,
    Scale,
    canvas,
    coordinate,
    element,
    text_width,
    ticks,
    title,
)

TOP, BOTTOM, RIGHT, PITCH = 6.0, 24.0, 14.0, 34.0


@dataclass(frozen=True)
class Box:
    """Tukey's five numbers and what lies outside."""

    name: str
    low: float
    quartile: float
    median: float
    upper_quartile: float
    high: float
    outside: tuple[float, ...]


@dataclass(frozen=True)
class BoxChart:
    label: str
    boxes: tuple[Box, ...]
    text: Callable[[float], str]


def box(name: str, values: Sequence[float]) -> Box:
    lower, median, upper = (float(q) for q in np.percentile(values, [25, 50, 75]))
    reach = 1.5 * (upper - lower)
    inside = [value for value in values if lower - reach <= value <= upper + reach]
    outside = tuple(value for value in values if value not in inside)
    return Box(name, min(inside), lower, median, upper, max(inside), outside)


def draw_boxes(chart: BoxChart) -> Markup:
    everything = [v for b in chart.boxes for v in (b.low, b.high, *b.outside)]
    marks = ticks(min(everything), max(everything))
    left = 10 + text_width([b.name for b in chart.boxes])
    x = Scale(marks[0], marks[-1], left, WIDTH - RIGHT)
    height = TOP + PITCH * len(chart.boxes) + BOTTOM
    parts: list[Markup] = []
    for mark in marks:
        ends = {"y1": TOP, "y2": height - BOTTOM}
        parts.append(element("line", class_="grid", x1=x(mark), x2=x(mark), **ends))
        place = {"x": x(mark), "y": height - BOTTOM + 16}
        parts.append(element("text", chart.text(mark), **place, text_anchor="middle"))
    for index, one in enumerate(chart.boxes):
        parts += _box(one, TOP + PITCH * (index + 0.5), x, chart.text)
    return canvas(height, chart.label, parts)


def _box(one: Box, y: float, x: Scale, text: Callable[[float], str]) -> Iterator[Markup]:
    yield element("text", one.name, x=x.start - 6, y=y + 4, text_anchor="end")
    for start, end in ((one.low, one.quartile), (one.upper_quartile, one.high)):
        yield element("line", class_="line thin s1", x1=x(start), x2=x(end), y1=y, y2=y)
    middle = f"median {text(one.median)}, quartiles {text(one.quartile)}"
    said = title(f"{one.name}: {middle} and {text(one.upper_quartile)}")
    place = {"x": x(one.quartile), "y": y - PITCH * 0.3, "height": PITCH * 0.6}
    width = max(x(one.upper_quartile) - x(one.quartile), 1.0)
    yield element("rect", said, class_="box s1", **place, width=width)
    ends = {"y1": y - PITCH * 0.3, "y2": y + PITCH * 0.3}
    yield element("line", class_="line s1", x1=x(one.median), x2=x(one.median), **ends)
    for value in one.outside:
        yield element("circle", title(text(value)), class_="dot s1", cx=x(value), cy=y, r=2.5)


HEIGHT, MARGIN, RADIUS = 300.0, 8.0, 1.6


@dataclass(frozen=True)
class Scatter:
    """`groups` are the points of every class; the axes mean nothing, so there are none."""

    label: str
    groups: tuple[tuple[tuple[float, float], ...], ...]


def draw_scatter(chart: Scatter) -> Markup:
    flat = [point for group in chart.groups for point in group] or [(0.0, 0.0)]
    x = Scale(min(p[0] for p in flat), max(p[0] for p in flat), MARGIN, WIDTH - MARGIN)
    y = Scale(
        min(p[1] for p in flat),
        max(p[1] for p in flat),
        HEIGHT - MARGIN,
        MARGIN,
    )
    parts = []
    for number, group in enumerate(chart.groups, 1):
        # One path of round dots per class is far smaller than a circle per node.
        dots = "".join(f"M{coordinate(x(a))} {coordinate(y(b))}h0" for a, b in group)
        said = title(f"class {number}: {len(group)} nodes")
        parts.append(element("path", said, class_=f"dots s{number}", d=dots))
    return canvas(HEIGHT, chart.label, parts)
