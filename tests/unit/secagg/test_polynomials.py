"""Polynomials come out the same from the table of powers, from Horner's rule, and from the sum."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from securefg.secagg import shamir as polynomials
from securefg.secagg.shamir import PRIME, evaluate_polynomial

FIELD = st.integers(0, PRIME - 1)


def summed(coefficients: list[int], x: int) -> int:
    powers = range(len(coefficients) - 1, -1, -1)
    return sum(c * pow(x, j, PRIME) for c, j in zip(coefficients, powers, strict=True)) % PRIME


@given(coefficients=st.lists(FIELD, min_size=1, max_size=40), count=st.integers(1, 60))
def test_points_in_a_row_give_the_sum_of_powers(coefficients: list[int], count: int) -> None:
    points = range(1, count + 1)
    assert evaluate_polynomial(coefficients, points) == [summed(coefficients, x) for x in points]


@given(
    coefficients=st.lists(FIELD, min_size=1, max_size=40),
    points=st.lists(st.integers(1, 10**6), min_size=1, max_size=20, unique=True),
)
def test_any_points_give_the_sum_of_powers(coefficients: list[int], points: list[int]) -> None:
    assert evaluate_polynomial(coefficients, points) == [summed(coefficients, x) for x in points]


def test_the_largest_numbers_of_the_field_do_not_overflow_the_limbs() -> None:
    coefficients = [PRIME - 1] * 67
    points = range(1, 102)
    assert evaluate_polynomial(coefficients, points) == [summed(coefficients, x) for x in points]


def test_a_table_that_would_be_large_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polynomials, "_by_table", None)
    assert evaluate_polynomial([1] * 201, range(1, 101))[0] == 201


def test_points_in_another_order_are_not_taken_for_points_in_a_row() -> None:
    assert evaluate_polynomial([1, 0], [1, 3, 2, 4]) == [1, 3, 2, 4]
