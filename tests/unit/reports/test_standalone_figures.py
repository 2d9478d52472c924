"""A figure as a file: XML on its own, with title, legend and drawing inside its frame."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from papers.spreads import CategoryChart, Points, Spread, draw_categories
from securefg.foundation.units import significant
from securefg.reports.figures.canvas import Figure, LegendEntry, standalone_svg

SVG = "{http://www.w3.org/2000/svg}"


def figure(*names: str) -> Figure:
    lines = tuple(Points(name, (Spread(1, 0.1), Spread(2, None)), 1) for name in names)
    chart = CategoryChart("By <place>.", ("a", "b"), lines, significant, "place")
    legend = tuple(LegendEntry(name, "s1") for name in names)
    return Figure("Up & <down>", "How to read it.", draw_categories(chart), legend)


def frame_of(root: ET.Element) -> tuple[float, float]:
    _, _, width, height = (float(word) for word in root.attrib["viewBox"].split())
    return width, height


def test_it_is_one_document_that_asks_for_nothing() -> None:
    text = standalone_svg(figure("ours"))
    root = ET.fromstring(text)
    assert root.attrib["aria-label"] == "Up & <down>. How to read it."
    assert next(e.text for e in root.iter(f"{SVG}text")) == "Up & <down>"
    assert "--s1: #0072b2" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "{%" not in text


def test_a_long_legend_goes_on_in_lines_and_the_drawing_comes_below() -> None:
    names = [f"a rather long name, number {i}" for i in range(5)]
    root = ET.fromstring(standalone_svg(figure(*names)))
    width, height = frame_of(root)
    moves = [e.attrib["transform"] for e in root.findall(f"{SVG}g")]
    places = [
        tuple(float(x) for x in m.removeprefix("translate(").rstrip(")").split()) for m in moves
    ]
    *legend, drawing = places
    assert len({y for _, y in legend}) > 1
    assert all(x < width / 2 + 30 for x, _ in legend)
    assert drawing[1] > max(y for _, y in legend)
    inner = root.find(f"{SVG}g/{SVG}svg")
    assert inner is not None
    assert drawing[1] + float(inner.attrib["height"]) <= height
