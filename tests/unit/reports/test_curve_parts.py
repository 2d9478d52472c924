"""The parts of a curve's page that judge: the front, the words for a leak, the axes."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audits.curves.accuracy import largest_gain, pareto_points
from audits.curves.page import strength_words
from securefg.reports.curve_data import CurvePoint, Leak
from securefg.reports.figures.canvas import axis_decades, linear_axis, log_axis
from securefg.reports.figures.plot import Mark, Plot, Side, Trace, draw_plot
from securefg.reports.words import adversary_words, setting_words, short_signed
from tests.unit.reports.made_curves import around, point


def leak(verdict: str, prior: float | None, value: float, reach: float = 0.01) -> Leak:
    return Leak(
        attack="a",
        adversary="server",
        metric="m",
        unit="u",
        verdict=verdict,
        because="b",
        value=around(value),
        prior=prior,
        gain=around(value - (prior or 0.0), reach),
    )


def at(accuracy: float, gained: float) -> CurvePoint:
    return point("s", "none", None, 1).model_copy(
        update={"accuracy": around(accuracy), "leaks": (leak("LEAK", 0.0, gained),)}
    )


pairs = st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.5, 0.9]), st.sampled_from([0.0, 0.1, 0.4])))


@given(pairs)
def test_the_front_holds_what_nothing_beats_and_nothing_else(
    curve_points: list[tuple[float, float]],
) -> None:
    points = [at(*one) for one in curve_points]
    front = {
        (p.accuracy.value if p.accuracy else 0.0, largest_gain(p)) for p in pareto_points(points)
    }

    def beaten(one: tuple[float, float]) -> bool:
        return any(
            other != one and other[0] >= one[0] and other[1] <= one[1] for other in curve_points
        )

    assert front == {one for one in curve_points if not beaten(one)}


def test_the_front_runs_from_left_to_right() -> None:
    front = pareto_points([at(0.9, 0.4), at(0.5, 0.1), at(0.4, 0.3)])
    assert [p.accuracy.value for p in front if p.accuracy] == [0.5, 0.9]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (leak("LEAK", 0.5, 0.99), "recovered"),
        (leak("LEAK", 0.5, 0.8), "mostly recovered"),
        (leak("LEAK", 0.5, 0.6), "partly recovered"),
        (leak("LEAK", 0.5, 0.51), "a trace"),
        (leak("LEAK", 0.0, 17.0), "leak"),
        (leak("LEAK", None, 0.9), "leak"),
        (leak("NOT_DETECTED", 0.5, 0.5), "not detected"),
        (leak("INCONCLUSIVE", 0.5, 0.9), "not known"),
        (leak("VIOLATION", 0.5, 0.9), "promise broken"),
    ],
)
def test_words_for_a_leak_go_by_what_could_be_gained(found: Leak, words: str) -> None:
    assert strength_words(found) == words


def test_adversaries_and_settings_are_named() -> None:
    assert adversary_words("client:3") == "client 3"
    assert adversary_words("client:1,5") == "clients 1, 5 together"
    assert adversary_words("server") == "the server"
    assert adversary_words("martian") == "martian"
    assert setting_words(point("s", "local_gaussian", 0.5, 1)).replace("\xa0", " ") == (
        "Noise at each client, ε = 0.5 per row"
    )
    assert [short_signed(v) for v in (0.0, -0.001, -0.25, 1234.0)] == ["0", "0", "−0.25", "+1,234"]


def test_infinity_and_zero_lie_apart_at_the_ends() -> None:
    axis = log_axis([0.0, 1.0, 100.0, math.inf], 50.0, 350.0, str)
    assert axis(0.0) == 50.0
    assert axis(math.inf) == 350.0
    assert 80 < axis(1.0) < axis(10.0) < axis(100.0) < 320
    assert axis(10.0) - axis(1.0) == pytest.approx(axis(100.0) - axis(10.0))
    assert [text for _, text in axis.marks][-1] == "∞"
    assert len(axis.breaks) == 2


def test_an_axis_without_them_gives_them_no_room() -> None:
    axis = log_axis([1.0, 100.0], 50.0, 350.0, str)
    assert axis.breaks == ()
    assert axis(1.0) - 50.0 == pytest.approx(350.0 - axis(100.0))


@pytest.mark.parametrize("values", [[], [5.0], [math.inf], [0.0], [3.0, 3.0]])
def test_an_axis_of_hardly_any_value_is_drawn(values: list[float]) -> None:
    axis = log_axis(values, 0.0, 300.0, str)
    assert all(0 <= axis(value) <= 300 for value in values)


def test_marks_that_would_touch_are_left_out() -> None:
    swept = [float(k) for k in range(1, 200)]
    axis = log_axis(swept, 0.0, 300.0, lambda v: f"{v:g}", swept)
    places = [axis(value) for value, _ in axis.marks]
    assert 3 < len(places) < 60
    assert all(b - a >= 10 for a, b in itertools.pairwise(places))


def test_decades_cover_what_is_drawn() -> None:
    assert axis_decades(0.4, 30) == [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
    assert axis_decades(0.001, 1000) == [0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]


def test_values_beyond_the_bounds_lie_at_the_ends() -> None:
    axis = linear_axis([0.5, 1.7], 200.0, 0.0, str, (0.0, 1.0))
    assert axis(1.7) == axis(1.0) == 0.0


def test_points_at_one_place_stand_beside_one_another() -> None:
    same = tuple(Trace(name, (Mark(8.0, 0.5, name),)) for name in ("a", "b"))
    plain = Side("x", str, True), Side("y", str)
    drawn = draw_plot(Plot("two at one place", *plain, same))
    places = [part.split('"')[0] for part in drawn.split('class="shape" cx="')[1:]]
    assert len(set(places)) == 2


def test_the_front_steps_over_what_cannot_be_had() -> None:
    """Between two settings, more accuracy than the left one's costs the right one's leakage."""
    corners = ((0.5, 0.1), (0.9, 0.4))
    marks = tuple(Mark(x, y, "m") for x, y in corners)
    plain = Side("x", str), Side("y", str)
    drawn = draw_plot(Plot("a front", *plain, (Trace("t", marks),), front=corners))
    steps = drawn.split('class="front" points="')[1].split('"')[0].split()
    places = [tuple(map(float, step.split(","))) for step in steps]
    assert places[1] == (places[0][0], places[2][1])
