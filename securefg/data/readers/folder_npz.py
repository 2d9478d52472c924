"""The NPZ files of a folder that a user brings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from securefg.data.readers.arrays import read_arrays
from securefg.foundation.errors import DataError

_CSR = ("data", "indices", "indptr", "shape")


def features(path: Path) -> NDArray[Any]:
    """`x` of shape (N, d), or the parts that `scipy.sparse.save_npz` writes for a CSR matrix."""
    arrays = read_arrays(path)
    x = arrays["x"] if "x" in arrays else _dense(path, arrays)
    if x.ndim != 2 or 0 in x.shape or x.dtype.kind not in "fiub":
        raise _fault(path, "x", f"shape {x.shape} of {x.dtype}", "(N, d) numbers, none of them 0")
    for row, column in np.argwhere(~(np.abs(x) <= np.finfo(np.float32).max))[:1]:
        raise _fault(path, "x", f"{x[row, column]} in row {row + 1}", "finite float32 numbers")
    return x


def labels(path: Path, num_nodes: int) -> NDArray[np.int64]:
    y = _integers(path, "y")
    if y.shape != (num_nodes,):
        raise _fault(path, "y", f"shape {y.shape}", f"one label for each of {num_nodes} nodes")
    if not np.array_equal(np.unique(y), np.arange(len(np.unique(y)))):
        raise _fault(path, "y", f"labels {y.min()} to {y.max()}", "labels 0 to C-1 without gaps")
    return y


def edges(path: Path, num_nodes: int) -> NDArray[np.int64]:
    ends = _integers(path, "edge_index")
    if ends.ndim != 2 or ends.shape[0] != 2 or not ends.shape[1]:
        raise _fault(path, "edge_index", f"shape {ends.shape}", "(2, E), at least one edge")
    outside = np.argwhere(((ends < 0) | (ends >= num_nodes)).T)
    for edge, end in outside[:1]:
        found = f"node {ends[end, edge]} in edge {edge + 1}"
        raise _fault(path, "edge_index", found, f"nodes from 0 to {num_nodes - 1}")
    return ends


def _dense(path: Path, arrays: Any) -> NDArray[Any]:
    if any(part not in arrays for part in _CSR):
        found = ", ".join(arrays) or "no arrays"
        raise DataError(f"{path}: found {found}; wanted x, or {', '.join(_CSR)} of a CSR matrix")
    if arrays.get("format", b"csr") != b"csr":
        raise _fault(path, "format", f"{arrays['format']}", "csr")
    try:
        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        matrix = csr_matrix(parts, shape=tuple(arrays["shape"].tolist()))
        matrix.check_format(full_check=True)
        return np.asarray(matrix.todense())
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: found {error}; wanted the parts of a CSR matrix") from error


def _integers(path: Path, name: str) -> NDArray[np.int64]:
    arrays = read_arrays(path)
    if name not in arrays:
        raise DataError(f"{path}: found {', '.join(arrays) or 'no arrays'}; wanted {name}")
    if arrays[name].dtype.kind not in "iu":
        raise _fault(path, name, f"numbers of {arrays[name].dtype}", "integers")
    return np.ascontiguousarray(arrays[name], np.int64)


def _fault(path: Path, array: str, found: str, wanted: str) -> DataError:
    return DataError(f"{path}, array {array}: found {found}; wanted {wanted}")
