"""Subset sums of client constants show the members of a sum, as trying all subsets does."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefg.foundation.errors import ConfigError
from securefg.secagg.exposure import fitted_constants, subset_exposure

SIZES = np.array([301.0, 417, 502, 548, 611, 703])


def by_trying(constants: list[tuple[int, ...]], row: tuple[int, ...]) -> tuple[set[int], set[int]]:
    """The clients in all subsets with this sum, and those in none of them."""
    subsets = [
        {k for k, bit in enumerate(bits) if bit}
        for bits in product((0, 1), repeat=len(constants))
        if tuple(np.array(bits) @ np.array(constants)) == row
    ]
    everybody = set(range(len(constants)))
    return set.intersection(*subsets), everybody - set.union(*subsets)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 2).flatmap(
        lambda columns: st.lists(st.tuples(*[st.integers(0, 6)] * columns), min_size=1, max_size=6)
    ),
    st.integers(0, 2**16),
)
def test_subset_exposure_of_any_constants_agrees_with_all_subsets(
    constants: list[tuple[int, ...]], seed: int
) -> None:
    members = np.random.default_rng(seed).random((8, len(constants))) < 0.5
    values = np.array(constants, float)
    sums = members @ values
    exposure = subset_exposure(values, sums, np.full(values.shape[1], 1e-6))
    for row, total in enumerate(sums):
        inside, outside = by_trying(constants, tuple(int(x) for x in total))
        assert set(np.flatnonzero(exposure.holders[row])) == inside
        assert set(np.flatnonzero(exposure.others[row])) == outside


def test_subset_exposure_of_equal_constants_shows_everybody_or_nobody_alone() -> None:
    counts = np.arange(101.0)[:, None]
    found = subset_exposure(np.ones((100, 1)), counts, np.array([1e-6]))
    assert np.flatnonzero(found.holders.any(1)).tolist() == [100]
    assert np.flatnonzero(found.others.any(1)).tolist() == [0]


def test_subset_exposure_with_one_client_away_names_its_rows() -> None:
    """The counts of two sets of clients differ by one bit."""
    members = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]], bool)
    constants = np.array([[1.0, 1], [1, 1], [1, 0]])
    found = subset_exposure(constants, members @ constants, np.full(2, 1e-6))
    assert found.holders[:, 2].tolist() == [False, True, True]
    assert found.others[:, 2].tolist() == [True, False, False]


def test_subset_exposure_of_too_many_different_constants_is_refused() -> None:
    constants = np.arange(1.0, 22)[:, None]
    with pytest.raises(ConfigError, match="subset sums: found 21 clients"):
        subset_exposure(constants, np.array([[1.0]]), np.array([1e-6]))
    assert subset_exposure(constants[:20], np.array([[210.0]]), np.array([1e-6])).holders.all()


def test_fitted_constants_of_sizes_are_found_and_of_real_rows_are_not() -> None:
    rng = np.random.default_rng(0)
    members = rng.random((1000, 6)) < SIZES / 1000
    real = (members * rng.random((1000, 6))).sum(1)
    sums = np.stack([members @ SIZES, members.sum(1), real, np.zeros(1000)], axis=1)
    constants, tolerance, is_fitting = fitted_constants(sums, members, error=1e-5)
    assert is_fitting.tolist() == [True, True, False, False]
    np.testing.assert_allclose(constants[:, 0], SIZES)
    found = subset_exposure(constants[:, :2], sums[:, :2], tolerance[:2])
    assert (found.holders == members).all()
    assert not (found.holders & ~members).any()
    assert not (found.others & members).any()


def test_fitted_constants_without_a_row_to_check_are_not_believed() -> None:
    members = np.eye(4, dtype=bool)
    assert not fitted_constants(np.arange(1.0, 5)[:, None], members, 1e-5)[2].any()
