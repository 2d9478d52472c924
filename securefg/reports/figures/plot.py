"""Measured points in a plane: intervals, lines, levels, bands. Every point says its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from markupsafe import Markup

from securefg.reports.figures.canvas import (
    WIDTH,
    Axis,
    coordinate,
    draw_canvas,
    element,
    linear_axis,
    log_axis,
    make_tooltip,
    text_width,
)

TOP, BOTTOM, RIGHT = 12.0, 40.0, 14.0
# Points of several lines at one place stand beside one another.
ASIDE = 7.0

SHAPES = ("circle", "square", "triangle", "diamond", "cross", "down")

_PATHS = {
    "square": "M-3.4-3.4h6.8v6.8h-6.8z",
    "triangle": "M0-4.4L4.2 3.2h-8.4z",
    "diamond": "M0-4.8L4.8 0L0 4.8L-4.8 0z",
    "cross": "M-3.6-3.6l7.2 7.2m0-7.2l-7.2 7.2",
    "down": "M0 4.4L4.2-3.2h-8.4z",
}


@dataclass(frozen=True)
class Mark:
    """A measured point. `x` may be infinity. `link` is where its numbers come from.

    each    the single values whose mean it is
    tone    bad: stands out in red; chosen: ringed
    """

    x: float
    y: float
    said: str
    link: str = ""
    low: float | None = None
    high: float | None = None
    each: tuple[float, ...] = ()
    tone: Literal["", "bad", "chosen"] = ""


@dataclass(frozen=True)
class Trace:
    """A trace of points of one kind, from left to right, joined by a line or not."""

    name: str
    marks: tuple[Mark, ...]
    colour: int = 1
    shape: str = "circle"
    joined: bool = True


@dataclass(frozen=True)
class Guide:
    """A dashed level across the drawing, with its name. `tone` limit is drawn in red."""

    name: str
    value: float
    said: str
    tone: Literal["", "limit"] = ""


@dataclass(frozen=True)
class Side:
    """A description of what one axis shows.

    marks    written along a logarithmic axis
    covered  values that are always on the axis
    """

    name: str
    text: Callable[[float], str]
    logarithmic: bool = False
    marks: tuple[float, ...] | None = None
    bounds: tuple[float, float] = (-math.inf, math.inf)
    covered: tuple[float, ...] = ()


@dataclass(frozen=True)
class Plot:
    """A drawing of traces.

    band      (x, low, high) of a shaded region
    front     corners of a stepped line, from left to right
    diagonal  y = x, and the region above it shaded
    lost      (x, why) of points that are missing: crosses on the lower edge
    """

    label: str
    x: Side
    y: Side
    traces: tuple[Trace, ...]
    guides: tuple[Guide, ...] = ()
    band: tuple[tuple[float, float, float], ...] = ()
    front: tuple[tuple[float, float], ...] = ()
    diagonal: bool = False
    lost: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True)
class Frame:
    """A pair of axes on a canvas of this size."""

    x: Axis
    y: Axis
    width: float
    height: float


def draw_plot(plot: Plot, width: float = WIDTH, height: float = 250.0) -> Markup:
    """Draw a plot of this size as SVG."""
    frame = _make_frame(plot, width, height)
    parts = [
        *_draw_band(plot, frame),
        *_draw_grid(plot, frame),
        *_draw_diagonal(plot, frame),
        *_guide_lines(plot, frame),
        *_draw_front(plot, frame),
    ]
    aside = ASIDE * _crowd_shift(plot)
    places = range(len(plot.traces))
    shifts = [aside * (i - (len(plot.traces) - 1) / 2) for i in places]
    for trace, shift in zip(plot.traces, shifts, strict=True):
        parts += _draw_line(trace, frame, shift)
    for trace, shift in zip(plot.traces, shifts, strict=True):
        parts += [_draw_point(trace, mark, frame, shift) for mark in trace.marks]
    parts += [*_draw_lost(plot, frame), *_guide_names(plot, frame)]
    return draw_canvas(height, plot.label, parts, width=width, role="group")


def _crowd_shift(plot: Plot) -> float:
    """Return 1 where two traces share a place on a logarithmic axis, else 0: no need to step
    aside."""
    if not plot.x.logarithmic or plot.diagonal:
        return 0.0
    seen = [x for trace in plot.traces for x in {mark.x for mark in trace.marks}]
    return 1.0 if len(seen) > len(set(seen)) else 0.0


def _make_frame(plot: Plot, width: float, height: float) -> Frame:
    marks = [mark for trace in plot.traces for mark in trace.marks]
    across = [m.x for m in marks] + [x for x, _ in plot.lost]
    up = [v for m in marks for v in (m.y, m.low, m.high) if v is not None]
    up += [*(guide.value for guide in plot.guides), *plot.y.covered]
    up += [v for _, low, high in plot.band for v in (low, high)]
    if plot.diagonal:
        both = [value for value in across + up if value > 0]
        across, up = across + both, up + both
    y = _make_axis(plot.y, up, height - BOTTOM, TOP)
    left = 26 + text_width([text for _, text in y.marks])
    x = _make_axis(plot.x, across, left, width - RIGHT)
    return Frame(x, y, width, height)


def _make_axis(side: Side, values: list[float], start: float, end: float) -> Axis:
    if side.logarithmic:
        return log_axis(values, start, end, side.text, side.marks)
    return linear_axis(values, start, end, side.text, side.bounds)


def _draw_grid(plot: Plot, frame: Frame) -> Iterator[Markup]:
    x, y, base = frame.x, frame.y, frame.height - BOTTOM
    for value, text in y.marks:
        yield element("line", class_="grid", x1=x.start, x2=x.end, y1=y(value), y2=y(value))
        yield element("text", text, x=x.start - 6, y=y(value) + 4, text_anchor="end")
    for value, text in x.marks:
        yield element("line", class_="tick", x1=x(value), x2=x(value), y1=base, y2=base + 4)
        style = "infinite" if math.isinf(value) else "mark-name"
        yield element("text", text, class_=style, x=x(value), y=base + 16, text_anchor="middle")
    for place in x.breaks:
        strokes = f"M{coordinate(place - 4)} {coordinate(base + 4)}l4-8m0 8l4-8"
        yield element("path", class_="break", d=strokes)
    for place in y.breaks:
        strokes = f"M{coordinate(x.start - 4)} {coordinate(place + 2)}l8-4m-8 8l8-4"
        yield element("path", class_="break", d=strokes)
    middle = (x.start + x.end) / 2
    foot = frame.height - 5
    yield element("text", plot.x.name, class_="axis", x=middle, y=foot, text_anchor="middle")
    turned = f"translate(10 {coordinate((y.start + y.end) / 2)}) rotate(-90)"
    yield element("text", plot.y.name, class_="axis", transform=turned, text_anchor="middle")


def _draw_band(plot: Plot, frame: Frame) -> Iterator[Markup]:
    """Yield the band, level at both ends, as far as the drawing goes."""
    if not plot.band:
        return
    known = sorted(plot.band)
    ends = [(frame.x.start, *known[0][1:]), (frame.x.end, *known[-1][1:])]
    inner = [(frame.x(x), low, high) for x, low, high in known]
    along = [ends[0], *inner, ends[1]]
    upper = [(x, frame.y(high)) for x, _, high in along]
    lower = [(x, frame.y(low)) for x, low, _ in reversed(along)]
    yield element("polygon", class_="band", points=_path_text(upper + lower))


def _draw_diagonal(plot: Plot, frame: Frame) -> Iterator[Markup]:
    if not plot.diagonal:
        return
    low = max(frame.x.scale.low, frame.y.scale.low)
    high = min(frame.x.scale.high, frame.y.scale.high)
    start = (frame.x.scale(low), frame.y.scale(low))
    end = (frame.x.scale(high), frame.y.scale(high))
    corners = [start, end, (end[0], TOP), (frame.x.start, TOP), (frame.x.start, start[1])]
    yield element("polygon", class_="forbidden", points=_path_text(corners))
    ends = {"x1": start[0], "y1": start[1], "x2": end[0], "y2": end[1]}
    yield element("line", class_="diagonal", **ends)


def _guide_lines(plot: Plot, frame: Frame) -> Iterator[Markup]:
    for guide in plot.guides:
        y = frame.y(guide.value)
        ends = {"x1": frame.x.start, "x2": frame.x.end, "y1": y, "y2": y}
        style = f"guide {guide.tone}".strip()
        yield element("line", make_tooltip(guide.said), class_=style, **ends)


def _guide_names(plot: Plot, frame: Frame) -> Iterator[Markup]:
    """Yield the guides' names over their lines, or under them if another name is near. They are
    readable over what is drawn."""
    taken: list[float] = []
    for guide in sorted(plot.guides, key=lambda one: -one.value):
        y = frame.y(guide.value)
        free = y > TOP + 8 and all(abs(y - 4 - other) > 11 for other in taken)
        taken.append(y - 4 if free else y + 12)
        style = f"guide-name {guide.tone}".strip()
        yield element("text", guide.name, class_=style, x=frame.x.start + 5, y=taken[-1])


def _draw_front(plot: Plot, frame: Frame) -> Iterator[Markup]:
    if len(plot.front) < 2:
        return
    corners = [(frame.x(x), frame.y(y)) for x, y in plot.front]
    stepped = [corners[0]]
    for (before, _), (x, y) in pairwise(corners):
        stepped += [(before, y), (x, y)]
    yield element("polyline", class_="front", points=_path_text(stepped))


def _draw_lost(plot: Plot, frame: Frame) -> Iterator[Markup]:
    base = frame.height - BOTTOM
    for x, why in plot.lost:
        strokes = f"M{coordinate(frame.x(x) - 4)} {coordinate(base - 10)}l8 8m0-8l-8 8"
        hit = element("circle", class_="hit", cx=frame.x(x), cy=base - 6, r=9)
        inner = (make_tooltip(why), element("path", class_="drop", d=strokes), hit)
        yield element("a", *inner, class_="point", href="#failed", aria_label=why)


def _draw_line(trace: Trace, frame: Frame, shift: float) -> Iterator[Markup]:
    finite = [mark for mark in trace.marks if not math.isinf(mark.x)]
    if trace.joined and len(finite) > 1:
        places = [(frame.x(mark.x) + shift, frame.y(mark.y)) for mark in finite]
        yield element("polyline", class_=f"line s{trace.colour}", points=_path_text(places))


def _draw_point(trace: Trace, mark: Mark, frame: Frame, shift: float) -> Markup:
    x, y = frame.x(mark.x) + shift, frame.y(mark.y)
    parts = [make_tooltip(mark.said), *_draw_whisker(mark, frame, x)]
    parts += [element("circle", class_="each", cx=x, cy=frame.y(v), r=1.9) for v in mark.each]
    if mark.tone == "chosen":
        parts.append(element("circle", class_="ring", cx=x, cy=y, r=8.5))
    parts.append(_draw_shape(trace.shape, x, y))
    parts.append(element("circle", class_="hit", cx=x, cy=y, r=10))
    style = f"point s{trace.colour}{' bad' if mark.tone == 'bad' else ''}"
    said = mark.said.replace("\n", "; ")
    if mark.link:
        return element("a", *parts, class_=style, href=mark.link, aria_label=said)
    return element("g", *parts, class_=style, tabindex="0", role="img", aria_label=said)


def _draw_whisker(mark: Mark, frame: Frame, x: float) -> Iterator[Markup]:
    if mark.low is None or mark.high is None or mark.high <= mark.low:
        return
    low, high = frame.y(mark.low), frame.y(mark.high)
    strokes = f"M{coordinate(x)} {coordinate(low)}V{coordinate(high)}"
    for end in (low, high):
        strokes += f"M{coordinate(x - 3)} {coordinate(end)}h6"
    yield element("path", class_="whisker", d=strokes)


def _draw_shape(shape: str, x: float, y: float) -> Markup:
    if shape == "circle":
        return element("circle", class_="shape", cx=x, cy=y, r=3.8)
    place = f"translate({coordinate(x)} {coordinate(y)})"
    return element("path", class_=f"shape {shape}", d=_PATHS[shape], transform=place)


def sample(trace: Trace) -> Markup:
    """Return the trace's line and shape, for the legend."""
    line = [element("line", class_="line", x1=1, x2=23, y1=6, y2=6)] if trace.joined else []
    inner = [*line, _draw_shape(trace.shape, 12, 6)]
    group = element("g", *inner, class_=f"point s{trace.colour}")
    return element("svg", group, class_="sample", viewBox="0 0 24 12", aria_hidden="true")


def _path_text(places: list[tuple[float, float]]) -> str:
    return " ".join(f"{coordinate(x)},{coordinate(y)}" for x, y in places)
