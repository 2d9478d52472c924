"""Charts of a run's page: lines over rounds, bars, heat maps, and their numbers as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from securefg.foundation.quoting import neutral_cell
from securefg.foundation.units import number
from securefg.reports.figures.canvas import (
    CHARACTER,
    WIDTH,
    Figure,
    LegendEntry,
    Scale,
    axis_ticks,
    coordinate,
    draw_canvas,
    element,
    label_interval,
    make_tooltip,
    text_width,
)

HEIGHT, TOP, BOTTOM, RIGHT = 236.0, 24.0, 34.0, 14.0
MAX_TOOLTIPS = 160


@dataclass(frozen=True)
class Series:
    """A line. None leaves a gap. `colour` counts from 1, `dashed` helps where colours do not."""

    name: str
    values: tuple[float | None, ...]
    colour: int = 1
    dashed: bool = False

    @property
    def style(self) -> str:
        """Return the CSS class of the line."""
        return f"s{self.colour} dashed" if self.dashed else f"s{self.colour}"


@dataclass(frozen=True)
class LineChart:
    """A chart of series over the same rounds.

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
    """Draw the series over their rounds as SVG."""
    known = [v for s in chart.series for v in s.values if v is not None]
    low = 0.0 if chart.from_zero or not known else min(known)
    marks = axis_ticks(low, max(known, default=1.0))
    left = 10 + text_width([chart.text(mark) for mark in marks])
    x = Scale(chart.rounds[0], chart.rounds[-1], left, WIDTH - RIGHT)
    y = Scale(marks[0], marks[-1], HEIGHT - BOTTOM, TOP)
    parts = [
        *_y_axis(marks, chart.text, y, left),
        *_x_axis(chart.rounds, x),
        *_draw_best(chart, x),
        *(mark for series in chart.series for mark in _draw_line(chart, series, x, y)),
        *_draw_drops(chart, x),
        *_draw_tooltips(chart, x),
    ]
    return draw_canvas(HEIGHT, chart.label, parts)


def _y_axis(
    marks: list[float], text: Callable[[float], str], y: Scale, left: float
) -> Iterator[Markup]:
    for mark in marks:
        yield element("line", class_="grid", x1=left, x2=WIDTH - RIGHT, y1=y(mark), y2=y(mark))
        yield element("text", text(mark), x=left - 6, y=y(mark) + 4, text_anchor="end")


def _x_axis(rounds: tuple[int, ...], x: Scale) -> Iterator[Markup]:
    step = (rounds[-1] - rounds[0]) / 12
    marks = axis_ticks(rounds[0], rounds[-1], 6, whole=True)
    for mark in [rounds[0], *(m for m in marks if rounds[0] + step < m <= rounds[-1])]:
        place = HEIGHT - BOTTOM + 16
        yield element("text", f"{mark:,.0f}", x=x(mark), y=place, text_anchor="middle")
    middle = (x.start + x.end) / 2
    yield element("text", "round", class_="axis", x=middle, y=HEIGHT - 3, text_anchor="middle")


def _draw_best(chart: LineChart, x: Scale) -> Iterator[Markup]:
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


def _draw_line(chart: LineChart, series: Series, x: Scale, y: Scale) -> Iterator[Markup]:
    for run in _unbroken_runs(chart.rounds, series.values):
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


def _unbroken_runs(
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


def _draw_drops(chart: LineChart, x: Scale) -> Iterator[Markup]:
    """Yield crosses on the lower edge."""
    base = HEIGHT - BOTTOM
    strokes = [
        f"M{coordinate(x(r) - 3)} {coordinate(base - 3)}l6 6m0-6l-6 6" for r, _ in chart.drops
    ]
    if strokes:
        yield element("path", class_="drop", d="".join(strokes))


def _draw_tooltips(chart: LineChart, x: Scale) -> Iterator[Markup]:
    """Yield invisible columns, each with the numbers of its round."""
    stride = -(-len(chart.rounds) // MAX_TOOLTIPS)
    chosen = sorted({*range(0, len(chart.rounds), stride), len(chart.rounds) - 1})
    places = [x(chart.rounds[i]) for i in chosen]
    edges = [x.start, *((a + b) / 2 for a, b in pairwise(places)), x.end]
    for index, (low, high) in zip(chosen, pairwise(edges), strict=True):
        yield element(
            "rect",
            make_tooltip(_round_tip(chart, index)),
            class_="hit",
            x=low,
            y=TOP,
            width=high - low,
            height=HEIGHT - BOTTOM - TOP,
        )


def _round_tip(chart: LineChart, index: int) -> str:
    lines = [f"round {chart.rounds[index]:,}"]
    for series in chart.series:
        value = series.values[index]
        lines.append(f"{series.name}: {'not known' if value is None else chart.text(value)}")
    dropped = dict(chart.drops).get(chart.rounds[index])
    return "\n".join([*lines, f"dropped out: {dropped}"] if dropped else lines)


LABEL_HEIGHT = 13.0


def _whole_text(value: float) -> str:
    return number(round(value))


@dataclass(frozen=True)
class Row:
    """A row of bars. `colour` is that of all its parts. With 0 every part has its own."""

    label: str
    values: tuple[float, ...]
    colour: int = 0


@dataclass(frozen=True)
class BarChart:
    """A bar chart. `parts` names the values of a row, in the order of the colours."""

    label: str
    rows: tuple[Row, ...]
    parts: tuple[str, ...]
    row_word: str = "client"
    axis: str = ""
    text: Callable[[float], str] = _whole_text


def draw_bars(chart: BarChart) -> Markup:
    """Draw the rows as horizontal bars in SVG."""
    pitch = 24.0 if len(chart.rows) <= 12 else max(6.0, 300 / len(chart.rows))
    totals = [sum(row.values) for row in chart.rows]
    left = 10 + text_width([row.label for row in chart.rows])
    right = WIDTH - 8 - text_width([chart.text(total) for total in totals])
    x = Scale(0, max(totals, default=0) or 1, left, right)
    top = 18.0 if chart.axis else 4.0
    parts = [element("text", chart.axis, class_="axis", x=0, y=11)] if chart.axis else []
    step = label_interval(len(chart.rows), pitch * len(chart.rows), LABEL_HEIGHT)
    for index, row in enumerate(chart.rows):
        parts += _draw_row(chart, row, x, top + index * pitch, pitch, index % step == 0)
    return draw_canvas(top + pitch * len(chart.rows) + 4, chart.label, parts)


def _draw_row(
    chart: BarChart, row: Row, x: Scale, top: float, pitch: float, labelled: bool
) -> Iterator[Markup]:
    thickness, middle = pitch * 0.7, top + pitch / 2 + 4
    if labelled:
        yield element("text", row.label, x=x.start - 6, y=middle, text_anchor="end")
    if pitch >= LABEL_HEIGHT:
        yield element("text", chart.text(sum(row.values)), x=x(sum(row.values)) + 5, y=middle)
    bars, before = [make_tooltip(_row_tip(chart, row))], 0.0
    for colour, value in enumerate(row.values, 1):
        width = x(before + value) - x(before)
        if value:
            place = {"x": x(before), "y": top + (pitch - thickness) / 2}
            style = f"bar s{row.colour or colour}"
            bars.append(element("rect", class_=style, **place, width=width, height=thickness))
        before += value
    yield element("g", *bars, class_="mark")


def _row_tip(chart: BarChart, row: Row) -> str:
    lines = [
        f"{name}: {chart.text(value)}" for name, value in zip(chart.parts, row.values, strict=True)
    ]
    return "\n".join([f"{chart.row_word} {row.label}", *lines])


MAP_TOP = 34.0
LEVELS = 16
MAX_CELL_TIPS = 600
# Beyond this opacity the text in a cell would lose its contrast.
STRONGEST = 0.7

_Place = tuple[int, int]


@dataclass(frozen=True)
class HeatMap:
    """A heat map.

    values      what the cells say
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
    """Draw the cells as SVG, the shade by the share."""
    left = 10 + text_width(list(chart.rows))
    width = (WIDTH - left) / len(chart.columns)
    height = 24.0 if len(chart.rows) <= 12 else max(5.0, 300 / len(chart.rows))
    x = Scale(0, len(chart.columns), left, WIDTH)
    y = Scale(0, len(chart.rows), MAP_TOP, MAP_TOP + height * len(chart.rows))
    parts = [
        element("text", chart.axis, class_="axis", x=left, y=11),
        *_draw_labels(chart, x, y),
        *_draw_levels(chart, x, y),
        *(_cell_texts(chart, x, y) if _label_fits(chart, width, height) else ()),
        *(_cell_tips(chart, x, y) if _count_cells(chart) <= MAX_CELL_TIPS else ()),
    ]
    return draw_canvas(y.end + 2, chart.label, parts)


def _count_cells(chart: HeatMap) -> int:
    return len(chart.rows) * len(chart.columns)


def _label_fits(chart: HeatMap, width: float, height: float) -> bool:
    longest = max(len(number(value)) for row in chart.values for value in row)
    return height >= LABEL_HEIGHT + 3 and width >= longest * CHARACTER + 4


def _draw_labels(chart: HeatMap, x: Scale, y: Scale) -> Iterator[Markup]:
    needed = text_width(list(chart.columns)) + 6
    step = label_interval(len(chart.columns), x.end - x.start, needed)
    for index in range(0, len(chart.columns), step):
        yield element("text", chart.columns[index], x=x(index + 0.5), y=27, text_anchor="middle")
    step = label_interval(len(chart.rows), y.end - y.start, LABEL_HEIGHT)
    for index in range(0, len(chart.rows), step):
        place = y(index + 0.5) + 4
        yield element("text", chart.rows[index], x=x.start - 6, y=place, text_anchor="end")


def _draw_levels(chart: HeatMap, x: Scale, y: Scale) -> Iterator[Markup]:
    """Yield one path for all cells of a shade, so that thousands of cells stay a small file."""
    largest = max(share for row in chart.shares for share in row) or 1.0
    by_level: dict[int, list[_Place]] = {}
    for i, row in enumerate(chart.shares):
        for j, share in enumerate(row):
            by_level.setdefault(round(share / largest * LEVELS), []).append((i, j))
    gap = 1.0 if len(chart.columns) <= 24 else 0.0
    for level, cells in sorted(by_level.items()):
        strokes = "".join(_square_path(i, j, x, y, gap) for i, j in cells)
        opacity = f"{0.04 + (STRONGEST - 0.04) * level / LEVELS:.3f}"
        yield element("path", class_="heat", fill_opacity=opacity, d=strokes)


def _square_path(i: int, j: int, x: Scale, y: Scale, gap: float) -> str:
    across, down = coordinate(x(j + 1) - x(j) - gap), coordinate(y(i + 1) - y(i) - gap)
    return f"M{coordinate(x(j))} {coordinate(y(i))}h{across}v{down}h-{across}z"


def _cell_texts(chart: HeatMap, x: Scale, y: Scale) -> Iterator[Markup]:
    for i, row in enumerate(chart.values):
        for j, value in enumerate(row):
            place = {"x": x(j + 0.5), "y": y(i + 0.5) + 4}
            yield element("text", number(value), class_="cell", **place, text_anchor="middle")


def _cell_tips(chart: HeatMap, x: Scale, y: Scale) -> Iterator[Markup]:
    for i, row in enumerate(chart.values):
        for j, value in enumerate(row):
            text = f"{chart.row_word} {chart.rows[i]}, {chart.axis} {chart.columns[j]}: {value:,}"
            place = {"x": x(j), "y": y(i), "width": x(1) - x(0), "height": y(1) - y(0)}
            yield element("rect", make_tooltip(text), class_="hit", **place)


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as CSV in which no cell is a formula. None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in (columns, *rows):
        writer.writerow([neutral_cell(cell) for cell in row])
    return text.getvalue()


def line_numbers(chart: LineChart) -> str:
    """Return the values of all series as CSV, a row per round."""
    columns = ("round", *(series.name for series in chart.series))
    values = zip(*(series.values for series in chart.series), strict=True)
    return csv_text(columns, ((r, *v) for r, v in zip(chart.rounds, values, strict=True)))


def bar_figure(
    title: str, caption: str, chart: BarChart, legend: tuple[LegendEntry, ...] = ()
) -> Figure:
    """Return the chart with its numbers as CSV."""
    columns = (chart.axis or chart.row_word, *chart.parts)
    numbers = csv_text(columns, ((row.label, *row.values) for row in chart.rows))
    return Figure(title, caption, draw_bars(chart), legend, csv=numbers)


def map_figure(title: str, caption: str, chart: HeatMap) -> Figure:
    """Return the heat map with its numbers as CSV."""
    columns = (chart.row_word, *(f"{chart.axis} {name}" for name in chart.columns))
    rows = zip(chart.rows, chart.values, strict=True)
    numbers = csv_text(columns, ((name, *values) for name, values in rows))
    return Figure(title, caption, draw_heat_map(chart), csv=numbers)
