"""Points in the plane, coloured by class: an embedding mapped to two dimensions."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from securefg.reports.figures.figure import WIDTH
from securefg.reports.figures.scales import Scale
from securefg.reports.figures.svg import canvas, coordinate, element, title

HEIGHT, MARGIN, RADIUS = 300.0, 8.0, 1.6


@dataclass(frozen=True)
class Scatter:
    """`groups` are the points of every class; the axes mean nothing, so there are none."""

    label: str
    groups: tuple[tuple[tuple[float, float], ...], ...]


def draw_scatter(chart: Scatter) -> Markup:
    flat = [point for group in chart.groups for point in group] or [(0.0, 0.0)]
    x = Scale(min(p[0] for p in flat), max(p[0] for p in flat), MARGIN, WIDTH - MARGIN)
    y = Scale(min(p[1] for p in flat), max(p[1] for p in flat), HEIGHT - MARGIN, MARGIN)
    parts = []
    for number, group in enumerate(chart.groups, 1):
        # One path of round dots per class is far smaller than a circle per node.
        dots = "".join(f"M{coordinate(x(a))} {coordinate(y(b))}h0" for a, b in group)
        said = title(f"class {number}: {len(group)} nodes")
        parts.append(element("path", said, class_=f"dots s{number}", d=dots))
    return canvas(HEIGHT, chart.label, parts)
