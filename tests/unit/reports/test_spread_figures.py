"""Box plots have Tukey's numbers; lines over named places show their intervals and are escaped."""

from __future__ import annotations

import numpy as np
import pytest

from papers.spreads import (
    BoxChart,
    CategoryChart,
    Points,
    Scatter,
    Spread,
    box,
    draw_boxes,
    draw_categories,
    draw_scatter,
)
from securefg.foundation.units import significant


def test_a_box_has_quartiles_whiskers_and_what_lies_outside() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 30.0]
    box_figures = box("a", values)
    assert box_figures.median == pytest.approx(np.median(values))
    assert (box_figures.quartile, box_figures.upper_quartile) == pytest.approx((2.25, 4.75))
    assert (box_figures.low, box_figures.high) == (1.0, 5.0)
    assert box_figures.outside == (30.0,)
    svg = draw_boxes(BoxChart("boxes", (box_figures,), significant))
    assert svg.count("<circle") == 1
    assert "median 3.5, quartiles 2.25 and 4.75" in svg


def test_lines_over_places_leave_gaps_and_show_intervals() -> None:
    line = Points("a<b", (Spread(1.0, 0.5), None, Spread(2.0)))
    chart = CategoryChart("label", ("x", "y", "z"), (line,), significant, "axis")
    svg = draw_categories(chart)
    assert svg.count("<circle") == 2
    assert svg.count('class="line thin') == 1
    assert "a&lt;b, x: 1 ± 0.5" in svg
    assert "a<b" not in svg


def test_every_class_of_a_scatter_has_a_path_within_the_drawing() -> None:
    svg = draw_scatter(Scatter("label", (((0.0, 0.0), (1.0, 2.0)), ((5.0, -3.0),))))
    assert svg.count('class="dots') == 2
    assert "class 1: 2 nodes" in svg
    assert "M372 292h0" in svg
