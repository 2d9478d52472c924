"""Sparse matrices in compressed rows, made dense once their indices are found to fit."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from securefg.foundation.npz import room_for

MOST_TIMES: Final = 512
"""A dense matrix may be so many times larger than it was stored: words are sparse."""


def dense_csr(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    shape: tuple[Any, ...],
    stored: int,
) -> NDArray[Any]:
    """The matrix, or a ValueError; scipy would follow any index, to wherever it leads.

    stored  the bytes that it came in, which limit how large it may become
    """
    if len(shape) != 2 or not all(type(size) is int and size > 0 for size in shape):
        raise ValueError(f"a matrix of shape {shape}")
    if math.prod(shape) * data.dtype.itemsize > room_for(stored, MOST_TIMES):
        raise ValueError(f"a matrix of shape {shape} in {stored} bytes")
    if not _fits(data, indices, indptr, shape):
        raise ValueError(f"indices that do not fit a matrix of shape {shape}")
    parts = (data, indices.astype(np.int64), indptr.astype(np.int64))
    return np.asarray(csr_matrix(parts, shape=shape).todense())


def _fits(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, ...]
) -> bool:
    integers = indices.dtype.kind in "iu" and indptr.dtype.kind in "iu"
    if not integers or data.dtype.kind not in "fiub":
        return False
    if (indices.shape, indptr.shape) != (data.shape, (shape[0] + 1,)) or data.ndim != 1:
        return False
    starts = indptr.astype(np.int64)
    ordered = starts[0] == 0 and starts[-1] == len(data) and bool((np.diff(starts) >= 0).all())
    return ordered and (not len(indices) or 0 <= indices.min() <= indices.max() < shape[1])
