"""Charts of the papers alone: values at named places, box plots, points by class."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from securefg.reports.figures.canvas import (
    CHARACTER,
    WIDTH,
    Scale,
    axis_ticks,
    coordinate,
    draw_canvas,
    element,
    label_interval,
    make_tooltip,
    text_width,
)

HEIGHT, TOP, BOTTOM, RIGHT = 236.0, 14.0, 34.0, 14.0


@dataclass(frozen=True)
class Spread:
    """A value and half the width of its interval, where it has one."""

    value: float
    half_width: float | None = None

    @property
    def low(self) -> float:
        return self.value - (self.half_width or 0.0)

    @property
    def high(self) -> float:
        return self.value + (self.half_width or 0.0)


@dataclass(frozen=True)
class Points:
    """One line over the places; None leaves a gap."""

    name: str
    values: tuple[Spread | None, ...]
    colour: int = 1
    dashed: bool = False

    @property
    def style(self) -> str:
        return f"s{self.colour} dashed" if self.dashed else f"s{self.colour}"


@dataclass(frozen=True)
class CategoryChart:
    """Lines over named places, evenly spaced; `axis` says what the places are."""

    label: str
    places: tuple[str, ...]
    lines: tuple[Points, ...]
    text: Callable[[float], str]
    axis: str = ""


def draw_categories(chart: CategoryChart) -> Markup:
    known = [v for line in chart.lines for v in line.values if v is not None]
    low, high = min((v.low for v in known), default=0), max((v.high for v in known), default=1)
    marks = axis_ticks(low, high)
    left = 10 + text_width([chart.text(mark) for mark in marks])
    x = Scale(-0.5, len(chart.places) - 0.5, left, WIDTH - RIGHT)
    y = Scale(marks[0], marks[-1], HEIGHT - BOTTOM, TOP)
    parts = [
        *(mark for value in marks for mark in _grid(value, chart.text(value), left, y)),
        *_names(chart, x),
        *(mark for line in chart.lines for mark in _line(chart, line, x, y)),
    ]
    return draw_canvas(HEIGHT, chart.label, parts)


def _grid(value: float, text: str, left: float, y: Scale) -> Iterator[Markup]:
    yield element("line", class_="grid", x1=left, x2=WIDTH - RIGHT, y1=y(value), y2=y(value))
    yield element("text", text, x=left - 6, y=y(value) + 4, text_anchor="end")


def _names(chart: CategoryChart, x: Scale) -> Iterator[Markup]:
    needed = text_width(list(chart.places)) + CHARACTER
    step = label_interval(len(chart.places), x.end - x.start, needed)
    for index, name in enumerate(chart.places):
        if index % step == 0:
            place = HEIGHT - BOTTOM + 16
            yield element("text", name, x=x(index), y=place, text_anchor="middle")
    middle = (x.start + x.end) / 2
    yield element("text", chart.axis, class_="axis", x=middle, y=HEIGHT - 3, text_anchor="middle")


def _line(chart: CategoryChart, line: Points, x: Scale, y: Scale) -> Iterator[Markup]:
    known = [(index, value) for index, value in enumerate(line.values) if value is not None]
    places = " ".join(f"{coordinate(x(i))},{coordinate(y(v.value))}" for i, v in known)
    if len(known) > 1:
        yield element("polyline", class_=f"line {line.style}", points=places)
    for index, value in known:
        at = x(index)
        if value.half_width is not None:
            ends = {"y1": y(value.low), "y2": y(value.high)}
            yield element("line", class_=f"line thin s{line.colour}", x1=at, x2=at, **ends)
        said = make_tooltip(f"{line.name}, {chart.places[index]}: {_words(value, chart.text)}")
        style = f"dot s{line.colour}"
        yield element("circle", said, class_=style, cx=at, cy=y(value.value), r=3.5)


def _words(value: Spread, text: Callable[[float], str]) -> str:
    width = "" if value.half_width is None else f" ± {text(value.half_width)}"
    return text(value.value) + width


BOX_TOP, BOX_BOTTOM, BOX_RIGHT, PITCH = 6.0, 24.0, 14.0, 34.0


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
    marks = axis_ticks(min(everything), max(everything))
    left = 10 + text_width([b.name for b in chart.boxes])
    x = Scale(marks[0], marks[-1], left, WIDTH - BOX_RIGHT)
    height = BOX_TOP + PITCH * len(chart.boxes) + BOX_BOTTOM
    parts: list[Markup] = []
    for mark in marks:
        ends = {"y1": BOX_TOP, "y2": height - BOX_BOTTOM}
        parts.append(element("line", class_="grid", x1=x(mark), x2=x(mark), **ends))
        place = {"x": x(mark), "y": height - BOX_BOTTOM + 16}
        parts.append(element("text", chart.text(mark), **place, text_anchor="middle"))
    for index, one in enumerate(chart.boxes):
        parts += _box(one, BOX_TOP + PITCH * (index + 0.5), x, chart.text)
    return draw_canvas(height, chart.label, parts)


def _box(drawn_box: Box, y: float, x: Scale, text: Callable[[float], str]) -> Iterator[Markup]:
    yield element("text", drawn_box.name, x=x.start - 6, y=y + 4, text_anchor="end")
    for start, end in (
        (drawn_box.low, drawn_box.quartile),
        (drawn_box.upper_quartile, drawn_box.high),
    ):
        yield element("line", class_="line thin s1", x1=x(start), x2=x(end), y1=y, y2=y)
    middle = f"median {text(drawn_box.median)}, quartiles {text(drawn_box.quartile)}"
    said = make_tooltip(f"{drawn_box.name}: {middle} and {text(drawn_box.upper_quartile)}")
    place = {"x": x(drawn_box.quartile), "y": y - PITCH * 0.3, "height": PITCH * 0.6}
    width = max(x(drawn_box.upper_quartile) - x(drawn_box.quartile), 1.0)
    yield element("rect", said, class_="box s1", **place, width=width)
    ends = {"y1": y - PITCH * 0.3, "y2": y + PITCH * 0.3}
    yield element("line", class_="line s1", x1=x(drawn_box.median), x2=x(drawn_box.median), **ends)
    for value in drawn_box.outside:
        yield element(
            "circle", make_tooltip(text(value)), class_="dot s1", cx=x(value), cy=y, r=2.5
        )


SCATTER_HEIGHT, SCATTER_MARGIN = 300.0, 8.0


@dataclass(frozen=True)
class Scatter:
    """`groups` are the points of every class; the axes mean nothing, so there are none."""

    label: str
    groups: tuple[tuple[tuple[float, float], ...], ...]


def draw_scatter(chart: Scatter) -> Markup:
    flat = [point for group in chart.groups for point in group] or [(0.0, 0.0)]
    x = Scale(
        min(p[0] for p in flat), max(p[0] for p in flat), SCATTER_MARGIN, WIDTH - SCATTER_MARGIN
    )
    y = Scale(
        min(p[1] for p in flat),
        max(p[1] for p in flat),
        SCATTER_HEIGHT - SCATTER_MARGIN,
        SCATTER_MARGIN,
    )
    parts = []
    for number, group in enumerate(chart.groups, 1):
        # One path of round dots per class is far smaller than a circle per node.
        dots = "".join(f"M{coordinate(x(a))} {coordinate(y(b))}h0" for a, b in group)
        said = make_tooltip(f"class {number}: {len(group)} nodes")
        parts.append(element("path", said, class_=f"dots s{number}", d=dots))
    return draw_canvas(SCATTER_HEIGHT, chart.label, parts)
