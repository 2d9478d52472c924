"""Line charts over the rounds: axes, the best round marked, drop-outs along the lower edge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

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

HEIGHT, TOP, BOTTOM, RIGHT = 236.0, 24.0, 34.0, 14.0
MAX_TOOLTIPS = 160


@dataclass(frozen=True)
class Series:
    """One line; None leaves a gap. `colour` counts from 1, `dashed` helps where colours do not."""

    name: str
    values: tuple[float | None, ...]
    colour: int = 1
    dashed: bool = False

    @property
    def style(self) -> str:
        return f"s{self.colour} dashed" if self.dashed else f"s{self.colour}"


@dataclass(frozen=True)
class LineChart:
    """Series over the same rounds.

    best      the round to mark
    drops     how many clients dropped out, by round
    """

    label: str
    rounds: tuple[int, ...]
    series: tuple[Series, ...]
    text: Callable[[float], str]
    best: int | None = None
    drops: tuple[tuple[int, int], ...] = ()
    from_zero: bool = False


def draw_lines(chart: LineChart) -> Markup:
    known = [v for s in chart.series for v in s.values if v is not None]
    low = 0.0 if chart.from_zero or not known else min(known)
    marks = ticks(low, max(known, default=1.0))
    left = 10 + text_width([chart.text(mark) for mark in marks])
    x = Scale(chart.rounds[0], chart.rounds[-1], left, WIDTH - RIGHT)
    y = Scale(marks[0], marks[-1], HEIGHT - BOTTOM, TOP)
    parts = [
        *_y_axis(marks, chart.text, y, left),
        *_x_axis(chart.rounds, x),
        *_best(chart, x),
        *(mark for series in chart.series for mark in _line(chart, series, x, y)),
        *_drops(chart, x),
        *_tooltips(chart, x),
    ]
    return canvas(HEIGHT, chart.label, parts)


def _y_axis(
    marks: list[float], text: Callable[[float], str], y: Scale, left: float
) -> Iterator[Markup]:
    for mark in marks:
        yield element("line", class_="grid", x1=left, x2=WIDTH - RIGHT, y1=y(mark), y2=y(mark))
        yield element("text", text(mark), x=left - 6, y=y(mark) + 4, text_anchor="end")


def _x_axis(rounds: tuple[int, ...], x: Scale) -> Iterator[Markup]:
    step = (rounds[-1] - rounds[0]) / 12
    marks = ticks(rounds[0], rounds[-1], 6, whole=True)
    for mark in [rounds[0], *(m for m in marks if rounds[0] + step < m <= rounds[-1])]:
        place = HEIGHT - BOTTOM + 16
        yield element("text", f"{mark:,.0f}", x=x(mark), y=place, text_anchor="middle")
    middle = (x.start + x.end) / 2
    yield element("text", "round", class_="axis", x=middle, y=HEIGHT - 3, text_anchor="middle")


def _best(chart: LineChart, x: Scale) -> Iterator[Markup]:
    if chart.best is None or chart.best not in chart.rounds:
        return
    place, late = x(chart.best), x(chart.best) > (x.start + x.end) / 2
    yield element("line", class_="best", x1=place, x2=place, y1=TOP - 8, y2=HEIGHT - BOTTOM)
    yield element(
        "text",
        f"best: round {chart.best:,}",
        class_="strong",
        x=place - 5 if late else place + 5,
        y=TOP - 8,
        text_anchor="end" if late else "start",
    )


def _line(chart: LineChart, series: Series, x: Scale, y: Scale) -> Iterator[Markup]:
    for run in _unbroken(chart.rounds, series.values):
        if len(run) == 1:
            (round_, value) = run[0]
            yield element("circle", class_=f"dot {series.style}", cx=x(round_), cy=y(value), r=3.5)
            continue
        places = " ".join(f"{coordinate(x(r))},{coordinate(y(v))}" for r, v in run)
        yield element("polyline", class_=f"line {series.style}", points=places)
    at_best = dict(zip(chart.rounds, series.values, strict=True)).get(chart.best or 0)
    if chart.best is not None and at_best is not None:
        place = x(chart.best)
        yield element("circle", class_=f"dot {series.style}", cx=place, cy=y(at_best), r=3.5)


def _unbroken(
    rounds: tuple[int, ...], values: tuple[float | None, ...]
) -> Iterator[list[tuple[int, float]]]:
    run: list[tuple[int, float]] = []
    for round_, value in zip(rounds, values, strict=True):
        if value is not None:
            run.append((round_, value))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _drops(chart: LineChart, x: Scale) -> Iterator[Markup]:
    """Crosses on the lower edge."""
    base = HEIGHT - BOTTOM
    strokes = [
        f"M{coordinate(x(r) - 3)} {coordinate(base - 3)}l6 6m0-6l-6 6" for r, _ in chart.drops
    ]
    if strokes:
        yield element("path", class_="drop", d="".join(strokes))


def _tooltips(chart: LineChart, x: Scale) -> Iterator[Markup]:
    """Invisible columns, each with the numbers of its round."""
    stride = -(-len(chart.rounds) // MAX_TOOLTIPS)
    chosen = sorted({*range(0, len(chart.rounds), stride), len(chart.rounds) - 1})
    places = [x(chart.rounds[i]) for i in chosen]
    edges = [x.start, *((a + b) / 2 for a, b in pairwise(places)), x.end]
    for index, (low, high) in zip(chosen, pairwise(edges), strict=True):
        yield element(
            "rect",
            title(_numbers(chart, index)),
            class_="hit",
            x=low,
            y=TOP,
            width=high - low,
            height=HEIGHT - BOTTOM - TOP,
        )


def _numbers(chart: LineChart, index: int) -> str:
    lines = [f"round {chart.rounds[index]:,}"]
    for series in chart.series:
        value = series.values[index]
        lines.append(f"{series.name}: {'not known' if value is None else chart.text(value)}")
    dropped = dict(chart.drops).get(chart.rounds[index])
    return "\n".join([*lines, f"dropped out: {dropped}"] if dropped else lines)
