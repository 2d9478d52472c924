"""Distinct numbers and pairs by sorting equal those of numpy."""

from __future__ import annotations

import numpy as np
import pytest

from securefg.foundation.unique import numbers_except, sorted_unique, unique_pairs


@pytest.mark.parametrize("count", [0, 1, 2, 500])
def test_sorted_numbers_and_pairs_equal_those_of_numpy(count: int) -> None:
    pairs = np.random.default_rng(count).integers(30, size=(count, 2))
    np.testing.assert_array_equal(sorted_unique(pairs), np.unique(pairs))
    np.testing.assert_array_equal(unique_pairs(pairs), np.unique(pairs, axis=0))


def test_numbers_except_those_taken_equal_numpys() -> None:
    rng = np.random.default_rng(0)
    numbers, taken = np.unique(rng.integers(90, size=60)), rng.integers(90, size=40)
    np.testing.assert_array_equal(numbers_except(numbers, taken), np.setdiff1d(numbers, taken))
