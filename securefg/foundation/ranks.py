"""Average ranks, without the second that importing scipy.stats costs every command."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def average_ranks(values: ArrayLike) -> NDArray[np.float64]:
    """1 for the smallest; equal values share the mean of their ranks; any NaN makes all NaN."""
    flat = np.asarray(values).ravel()
    if np.isnan(flat).any():
        return np.full(flat.size, np.nan)
    _, place, counts = np.unique(flat, return_inverse=True, return_counts=True)
    mean: NDArray[np.float64] = np.cumsum(counts) - (counts - 1) / 2
    return mean[place]
