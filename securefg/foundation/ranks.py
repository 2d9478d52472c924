"""Average ranks, without the second that importing scipy.stats costs every command."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def average_ranks(values: ArrayLike) -> NDArray[np.float64]:
    """Return the ranks, 1 for the smallest. Equal values share the mean of their ranks. Any NaN
    makes all NaN."""
    flat = np.asarray(values).ravel()
    if np.isnan(flat).any():
        return np.full(flat.size, np.nan)
    _, place, counts = np.unique(flat, return_inverse=True, return_counts=True)
    mean: NDArray[np.float64] = np.cumsum(counts) - (counts - 1) / 2
    return mean[place]


def row_ranks(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the average ranks within every row of numbers."""
    order = np.argsort(table, axis=1)
    ordered = np.take_along_axis(table, order, 1)
    place = np.broadcast_to(np.arange(table.shape[1]), table.shape)
    changes = ordered[:, 1:] != ordered[:, :-1]
    edge = np.ones((len(table), 1), bool)
    first = np.maximum.accumulate(np.where(np.hstack([edge, changes]), place, 0), 1)
    ends = np.where(np.hstack([changes, edge]), place, table.shape[1])
    last = np.minimum.accumulate(ends[:, ::-1], 1)[:, ::-1]
    ranks = np.empty(table.shape)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, 1)
    return ranks
