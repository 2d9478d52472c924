"""Numbers read well, and no bound is rounded down."""

from __future__ import annotations

import math

import pytest

from securefg.foundation.units import (
    bytes_text,
    degree_range,
    delta_text,
    epsilon_text,
    percent,
    seconds_text,
    significant,
)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1536, "1.5 KiB"), (1_048_530, "1 MiB"), (58_618_692, "55.9 MiB")],
)
def test_bytes_have_binary_units(count: int, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize("epsilon", [0.000312345, 0.5, 7.981, 99.99, 123.4, 3735.59])
def test_epsilon_is_never_rounded_down(epsilon: float) -> None:
    shown = float(epsilon_text(epsilon).replace(",", ""))
    assert epsilon <= shown <= epsilon * 1.01


def test_epsilon_of_an_accountant_hair_above_is_shown_as_the_target() -> None:
    assert epsilon_text(8.000000000000002) == "8.00"
    assert float(epsilon_text(1e-320)) > 0
    assert epsilon_text(7.999999999999993) == "8.00"


def test_infinite_and_zero_epsilon() -> None:
    assert (epsilon_text(None), epsilon_text(0.0)) == ("∞", "0")


def test_numbers_read_well() -> None:
    assert significant(0.5) == "0.5"
    assert significant(1234.4) == "1,234"
    assert significant(math.pi) == "3.14"
    assert percent(0.80284) == "80.3%"
    assert percent(None) == "n/a"
    assert delta_text(1e-5) == "1e-5"
    assert delta_text(1e-12) == "1e-12"
    assert (seconds_text(3.21), seconds_text(75), seconds_text(3720)) == (
        "3.2 s",
        "1 min 15 s",
        "1 h 2 min",
    )


def test_degree_ranges_double() -> None:
    assert [degree_range(b) for b in (0, 1, 2, 3, 11)] == ["0", "1", "2–3", "4–7", "1,024–2,047"]
