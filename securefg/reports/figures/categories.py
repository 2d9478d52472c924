"""Values at named places, with their intervals: settings swept, clients compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from markupsafe import Markup

from securefg.reports.figures.canvas import (
    CHARACTER,
    WIDTH,
    Scale,
    canvas,
    coordinate,
    element,
    every,
    text_width,
    ticks,
    title,
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
    marks = ticks(low, high)
    left = 10 + text_width([chart.text(mark) for mark in marks])
    x = Scale(-0.5, len(chart.places) - 0.5, left, WIDTH - RIGHT)
    y = Scale(marks[0], marks[-1], HEIGHT - BOTTOM, TOP)
    parts = [
        *(mark for value in marks for mark in _grid(value, chart.text(value), left, y)),
        *_names(chart, x),
        *(mark for line in chart.lines for mark in _line(chart, line, x, y)),
    ]
    return canvas(HEIGHT, chart.label, parts)


def _grid(value: float, text: str, left: float, y: Scale) -> Iterator[Markup]:
    yield element("line", class_="grid", x1=left, x2=WIDTH - RIGHT, y1=y(value), y2=y(value))
    yield element("text", text, x=left - 6, y=y(value) + 4, text_anchor="end")


def _names(chart: CategoryChart, x: Scale) -> Iterator[Markup]:
    needed = text_width(list(chart.places)) + CHARACTER
    step = every(len(chart.places), x.end - x.start, needed)
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
        said = title(f"{line.name}, {chart.places[index]}: {_words(value, chart.text)}")
        style = f"dot s{line.colour}"
        yield element("circle", said, class_=style, cx=at, cy=y(value.value), r=3.5)


def _words(value: Spread, text: Callable[[float], str]) -> str:
    width = "" if value.half_width is None else f" ± {text(value.half_width)}"
    return text(value.value) + width
