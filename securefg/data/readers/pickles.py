"""Reading the pickles that some datasets are published as, without running what is in them.

A pickle names the functions it wants called. Only those that rebuild arrays, sparse matrices and
adjacency lists are known here; any other name is refused before it is called.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from securefg.foundation.errors import DataError

_RECONSTRUCT: Any = np.zeros(0).__reduce__()[0]

_ADMITTED: Mapping[tuple[str, str], Any] = MappingProxyType(
    {
        ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
        ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("scipy.sparse.csr", "csr_matrix"): csr_matrix,
        ("scipy.sparse._csr", "csr_matrix"): csr_matrix,
        ("collections", "defaultdict"): defaultdict,
        ("__builtin__", "list"): list,
        ("builtins", "list"): list,
    }
)


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"the pickle asks for {module}.{name}")
        return _ADMITTED[module, name]


def read_pickle(path: Path) -> Any:
    """An array, a sparse matrix or a dictionary of lists; anything else raises `DataError`."""
    try:
        with path.open("rb") as file:
            return _ArraysOnly(file, encoding="latin1").load()
    except Exception as error:
        # Damaged pickles fail in any way the rebuilt classes can fail; all mean the same here.
        raise DataError(f"{path}: found {error}; wanted a pickle of arrays or lists") from error
