"""Drawings are well-formed, within their frame, and true to their values."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from securefg.reports.figures.canvas import WIDTH, Scale, axis_ticks, element
from securefg.reports.figures.charts import (
    BarChart,
    HeatMap,
    LineChart,
    Row,
    Series,
    draw_bars,
    draw_heat_map,
    draw_lines,
)


def line_chart(*values: float | None) -> LineChart:
    rounds = tuple(range(1, len(values) + 1))
    return LineChart("a label", rounds, (Series("<loss>", values),), str, best=1)


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)  # our own drawing, not foreign input


def test_text_and_attributes_are_escaped() -> None:
    assert element("text", "<b>&", class_='a"b') == '<text class="a&#34;b">&lt;b&gt;&amp;</text>'


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (0.31, 0.82), (-3, 17), (5, 5), (0, 0), (1, 3e9)]
)
def test_ticks_cover_the_range_with_round_steps(low: float, high: float) -> None:
    marks = axis_ticks(low, high)
    assert marks[0] <= low <= high <= marks[-1]
    assert 2 <= len(marks) <= 9
    mantissa = f"{marks[1] - marks[0]:.6e}".split("e")[0].rstrip("0").rstrip(".")
    assert mantissa in ("1", "2", "5")


def test_whole_ticks_are_whole() -> None:
    assert all(mark == int(mark) for mark in axis_ticks(1, 3, 6, whole=True))


def test_scale_puts_a_single_value_in_the_middle() -> None:
    assert Scale(1, 1, 0, 10)(1) == 5
    assert Scale(0, 4, 0, 10)(1) == 2.5


def test_line_breaks_where_a_value_is_missing() -> None:
    drawing = parsed(draw_lines(line_chart(1.0, 2.0, None, 1.0, 3.0)))
    assert len(drawing.findall("polyline")) == 2


def test_single_round_is_a_dot() -> None:
    drawing = parsed(draw_lines(line_chart(0.7)))
    assert not drawing.findall("polyline")
    assert drawing.findall("circle")


def test_series_without_any_value_still_has_axes() -> None:
    assert parsed(draw_lines(line_chart(None, None))).findall("text")


def test_tooltips_cover_the_width_without_gaps() -> None:
    drawing = parsed(draw_lines(line_chart(*map(float, range(700)))))
    boxes = [(float(r.get("x", 0)), float(r.get("width", 0))) for r in drawing.findall("rect")]
    assert len(boxes) <= 161
    assert all(x + w == pytest.approx(n, abs=0.11) for (x, w), (n, _) in pairwise(boxes))


def test_lines_stay_within_the_drawing() -> None:
    drawing = draw_lines(line_chart(-1e9, 3.0, 1e9))
    points = re.findall(r"(-?[\d.]+),(-?[\d.]+)", drawing)
    assert all(0 <= float(x) <= WIDTH and 0 <= float(y) <= 236 for x, y in points)


def test_bars_are_as_long_as_their_values() -> None:
    rows = (Row("0", (10, 30)), Row("1", (0, 20)))
    drawing = parsed(draw_bars(BarChart("a label", rows, ("held", "lost"))))
    widths = [float(rect.get("width", 0)) for rect in drawing.iter("rect")]
    assert widths[1] == pytest.approx(3 * widths[0], abs=0.2)
    assert widths[2] == pytest.approx(2 * widths[0], abs=0.2)


def test_bars_of_zero_are_drawn_without_length() -> None:
    drawing = parsed(draw_bars(BarChart("a label", (Row("0", (0,)),), ("nodes",))))
    assert not list(drawing.iter("rect"))


def heat_map(size: int) -> HeatMap:
    names = tuple(str(n) for n in range(size))
    values = tuple(tuple(i * j for j in range(size)) for i in range(size))
    shares = tuple(tuple(value / size**2 for value in row) for row in values)
    return HeatMap("a label", names, names, values, shares, "class")


def test_small_heat_map_writes_its_numbers() -> None:
    assert ">9</text>" in draw_heat_map(heat_map(4))


def test_large_heat_map_stays_small() -> None:
    drawing = draw_heat_map(heat_map(64))
    assert len(drawing) < 130_000
    assert "<title>" not in drawing


def test_cells_never_hide_their_text() -> None:
    opacities = re.findall(r'fill-opacity="([\d.]+)"', draw_heat_map(heat_map(4)))
    assert max(map(float, opacities)) <= 0.7


def test_heat_map_of_zeros_is_drawn() -> None:
    assert parsed(draw_heat_map(HeatMap("a label", ("0",), ("0",), ((0,),), ((0.0,),), "class")))
