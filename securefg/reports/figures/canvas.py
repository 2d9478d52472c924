"""A figure and what it is drawn with: scales and axes with round numbers, escaped SVG."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from securefg.reports.templating import render_page

# All drawings have this width, about that of a phone, so their text keeps its size on any screen.
WIDTH = 380.0


@dataclass(frozen=True)
class LegendEntry:
    """An entry of a legend. `style` names the CSS class of the sample: `s1` to `s7`, with `dashed`
    if the line is. `sample` is drawn instead if it is given."""

    name: str
    style: str = ""
    sample: Markup | None = None


@dataclass(frozen=True)
class Cell:
    """A cell of a table. `raw` is what a download holds. `links` are (text, address) that follow
    the text."""

    text: str
    raw: str = ""
    links: tuple[tuple[str, str], ...] = ()
    number: bool = True

    @property
    def value(self) -> str:
        """Return what a download holds."""
        return self.raw or self.text


@dataclass(frozen=True)
class Table:
    """A table of the numbers of a drawing, for screen readers and downloads."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Figure:
    """A drawing with what belongs to it.

    over    what it is about, over its title, where there are several of a kind
    broad   the same drawing for wide screens
    table   its numbers; `csv` holds them instead where they are many
    file    the name under which it is downloaded
    """

    title: str
    caption: str
    svg: Markup
    legend: tuple[LegendEntry, ...] = ()
    over: str = ""
    broad: Markup | None = None
    table: Table | None = None
    csv: str = ""
    file: str = ""


# The width of a digit at the charts' font size.
CHARACTER = 6.2


@dataclass(frozen=True)
class Scale:
    """A linear scale, from [low, high] to [start, end]. A single value lies in the middle."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        if self.high == self.low:
            return (self.start + self.end) / 2
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def axis_ticks(low: float, high: float, wanted: int = 5, whole: bool = False) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten that cover [low, high], about `wanted`
    many."""
    if high <= low:
        pad = abs(low) / 2 or 0.5
        low, high = low - pad if low < 0 or not whole else low, high + pad
    step = _round_step((high - low) / max(wanted - 1, 1))
    step = max(step, 1.0) if whole else step
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.75)


def text_width(texts: list[str]) -> float:
    """Return the width of the longest text at the charts' font size."""
    return CHARACTER * max((len(text) for text in texts), default=0)


def label_interval(count: int, room: float, needed: float) -> int:
    """Return n so that labels at every n-th of `count` places, `needed` pixels each, fit in
    `room`."""
    return max(1, math.ceil(count * needed / room)) if count else 1


# How far zero and infinity lie from the rest of a logarithmic axis.
APART = 30.0
# The share of their span that values keep from the ends of a linear axis.
ROOM = 0.04


@dataclass(frozen=True)
class Axis:
    """An axis: places along one side of a drawing.

    marks    (value, text) of what is written beside it
    breaks   places where the axis is cut: what lies beyond is zero or infinity
    """

    scale: Scale
    marks: tuple[tuple[float, str], ...]
    logarithmic: bool = False
    start: float = 0.0
    end: float = 1.0
    breaks: tuple[float, ...] = ()

    def __call__(self, value: float) -> float:
        """Return the place of a value. Values beyond the axis lie at its ends."""
        if self.logarithmic:
            if value <= 0:
                return self.start
            if math.isinf(value):
                return self.end
            value = math.log10(value)
        inside = min(max(value, self.scale.low), self.scale.high)
        return self.scale(inside)


def linear_axis(
    values: Iterable[float],
    start: float,
    end: float,
    text: Callable[[float], str],
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Axis:
    """Return an axis of all values between round numbers, with room at both ends, within
    `bounds`."""
    known = [min(max(value, bounds[0]), bounds[1]) for value in values] or [0.0, 1.0]
    room = ROOM * (max(known) - min(known))
    room = room or abs(known[0]) / 2 or 0.5  # around a single value
    low, high = max(min(known) - room, bounds[0]), min(max(known) + room, bounds[1])
    marks = axis_ticks(low, high)
    scale = Scale(marks[0], marks[-1], start, end)
    return Axis(scale, tuple((mark, text(mark)) for mark in marks), start=start, end=end)


def log_axis(
    values: Iterable[float],
    start: float,
    end: float,
    text: Callable[[float], str],
    marks: Sequence[float] | None = None,
) -> Axis:
    """Return a logarithmic axis. Zero and infinity lie apart, each only if a value is there.

    marks    written along the axis as far as they fit; not given: 1, 2 and 5 times powers of ten
    """
    known = list(values)
    finite = [value for value in known if 0 < value < math.inf] or [1.0]
    zero, infinite = any(v <= 0 for v in known), any(math.isinf(v) for v in known)
    towards = math.copysign(1.0, end - start)
    inner_start = start + towards * APART if zero else start
    inner_end = end - towards * APART if infinite else end
    chosen = list(marks) if marks is not None else axis_decades(min(finite), max(finite))
    low, high = min([*finite, *chosen]), max([*finite, *chosen])
    pad = 0.06 * (math.log10(high / low) or 1.0)
    scale = Scale(math.log10(low) - pad, math.log10(high) + pad, inner_start, inner_end)
    axis = Axis(scale, (), True, start, end)
    written = [(v, text(v)) for v in _that_fit(sorted(set(chosen)), axis, text)]
    ends = [(0.0, "0")] if zero else []
    written = ends + written + ([(math.inf, "∞")] if infinite else [])
    breaks = ([(start + inner_start) / 2] if zero else []) + (
        [(inner_end + end) / 2] if infinite else []
    )
    return Axis(scale, tuple(written), True, start, end, tuple(breaks))


def axis_decades(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten around [low, high], or powers alone if those are
    many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1.0,) if last - first > 3 else (1.0, 2.0, 5.0)
    every = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    below = max((v for v in every if v <= low), default=every[0])
    above = min((v for v in every if v >= high), default=every[-1])
    return [v for v in every if below <= v <= above]


def _that_fit(values: list[float], axis: Axis, text: Callable[[float], str]) -> list[float]:
    """Return from the first on the values whose text does not touch the text before."""
    chosen: list[float] = []
    for value in values:
        width = CHARACTER * len(text(value)) + 4
        if not chosen or abs(axis(value) - axis(chosen[-1])) >= width:
            chosen.append(value)
    return chosen


def element(tag: str, *children: str, **attributes: str | float) -> Markup:
    """Return `<tag …>children</tag>`. Text and attributes are escaped. `class_` and `text_anchor`
    become `class` and `text-anchor`."""
    written = "".join(
        f' {_attribute_name(key)}="{_attribute_value(value)}"' for key, value in attributes.items()
    )
    inside = "".join(escape(child) for child in children)
    return Markup(f"<{tag}{written}>{inside}</{tag}>" if inside else f"<{tag}{written}/>")


def draw_canvas(
    height: float, label: str, parts: Iterable[Markup], width: float = WIDTH, role: str = "img"
) -> Markup:
    """Return the drawing as a whole. `label` is what a screen reader says of it.

    role    `group` where single marks can be reached, `img` where the drawing is one picture
    """
    view = f"0 0 {coordinate(width)} {coordinate(height)}"
    return element("svg", *parts, viewBox=view, role=role, aria_label=label)


def coordinate(value: float) -> str:
    """Return a coordinate to a tenth of a pixel, which is enough and short."""
    return f"{value:.1f}".removesuffix(".0")


def make_tooltip(text: str) -> Markup:
    """Return a tooltip."""
    return element("title", text)


def _attribute_name(key: str) -> str:
    return key.rstrip("_") if key in ("class_", "viewBox") else key.replace("_", "-")


def _attribute_value(value: str | float) -> Markup:
    return escape(value if isinstance(value, str) else coordinate(value))


TITLE_HEIGHT, LINE_HEIGHT, MARGIN = 26, 16, 4
SAMPLE_WIDTH, LETTER_WIDTH, LEGEND_GAP = 27, 5.9, 14
_OPENING = re.compile(r'<svg viewBox="0 0 ([\d.]+) ([\d.]+)"')


def standalone_svg(figure: Figure) -> str:
    """Return the drawing at its own size. A legend that is too wide goes on below itself."""
    found = _OPENING.match(figure.svg)
    assert found is not None, "draw_canvas() begins with the size"
    width, height = float(found[1]), float(found[2])
    legend = list(_place_entries(figure.legend, width))
    top = max((y for _, y, _ in legend), default=TITLE_HEIGHT - LINE_HEIGHT) + LINE_HEIGHT / 2
    sized = f'<svg width="{width:g}" height="{height:g}" {figure.svg.removeprefix("<svg ")}'
    return render_page(
        "figure.svg",
        figure=figure,
        width=f"{width:g}",
        height=f"{top + height + MARGIN:g}",
        top=f"{top:g}",
        legend=legend,
        drawing=Markup(sized),
    )


def _place_entries(
    entries: tuple[LegendEntry, ...], width: float
) -> Iterator[tuple[float, float, LegendEntry]]:
    x, y = float(MARGIN), float(TITLE_HEIGHT + LINE_HEIGHT / 2)
    for entry in entries:
        wide = SAMPLE_WIDTH + LETTER_WIDTH * len(entry.name) + LEGEND_GAP
        if x > MARGIN and x + wide > width:
            x, y = float(MARGIN), y + LINE_HEIGHT
        yield x, y, entry
        x += wide
