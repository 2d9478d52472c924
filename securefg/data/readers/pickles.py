"""Reading the pickles that some datasets are published as, without running what is in them.

A pickle names the functions it wants called. Only those that rebuild arrays, sparse matrices and
adjacency lists are known here, and even they are stand-ins that note what they were given: arrays
are made of the notes once everything in them has been found to fit. Nothing of numpy or scipy sees
a state that nobody checked.
"""

from __future__ import annotations

import io
import math
import pickle
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from securefg.data.readers.csr import dense_csr
from securefg.foundation.errors import DataError
from securefg.foundation.quoting import shortened

_NUMBERS = frozenset({"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"})


class _Noted:
    """What the pickle would have called, and the state that it would have set."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Type(_Noted):
    pass


class _Array(_Noted):
    pass


class _Matrix(_Noted):
    pass


_ADMITTED: Mapping[tuple[str, str], Any] = MappingProxyType(
    {
        ("numpy.core.multiarray", "_reconstruct"): _Array,
        ("numpy._core.multiarray", "_reconstruct"): _Array,
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Type,
        ("scipy.sparse.csr", "csr_matrix"): _Matrix,
        ("scipy.sparse._csr", "csr_matrix"): _Matrix,
        ("copy_reg", "_reconstructor"): lambda kind, *_: kind(),
        ("copyreg", "_reconstructor"): lambda kind, *_: kind(),
        ("__builtin__", "object"): object,
        ("builtins", "object"): object,
        ("_codecs", "encode"): lambda text, *_: text.encode("latin1"),
        ("collections", "defaultdict"): defaultdict,
        ("__builtin__", "list"): list,
        ("builtins", "list"): list,
    }
)


class _ArraysOnly(pickle._Unpickler):
    """In Python, since the one in C makes room for as many entries as a damaged pickle names.

    So does the one opcode that is left out here, which no pickle of arrays needs.
    """

    dispatch: ClassVar[dict[int, Any]] = {
        code: load
        for code, load in pickle._Unpickler.dispatch.items()
        if code != pickle.BYTEARRAY8[0]
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"the pickle asks for {module}.{name}")
        return _ADMITTED[module, name]


def read_matrix(path: Path) -> NDArray[Any]:
    """An array of two axes, or a sparse matrix made dense."""
    found, stored = _read(path)
    try:
        dense = _dense(found, stored) if isinstance(found, _Matrix) else _array(found)
        if dense.ndim != 2 or dense.dtype.kind not in "fiu" or not dense.shape[1]:
            raise ValueError(f"an array {dense.shape} of {dense.dtype}")
        return dense
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise DataError(f"{path}: found {_words(error)}; wanted a pickled matrix") from error


def read_neighbours(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sources and targets of the edges that a dictionary of lists holds."""
    found, stored = _read(path)
    try:
        # A list may be referred to often: no honest pickle has more entries than bytes.
        if not isinstance(found, dict) or sum(map(len, found.values())) > stored:
            raise ValueError(f"a {type(found).__name__}")
        sizes = [len(ends) for ends in found.values()]
        targets = [end for ends in found.values() for end in ends]
        if not all(type(node) is int for node in (*found, *targets)) or not targets:
            raise ValueError("something that is no node")
        return np.repeat(np.array(list(found), np.int64), sizes), np.array(targets, np.int64)
    except (ValueError, TypeError, OverflowError) as error:
        wanted = "node -> list of neighbours"
        raise DataError(f"{path}: found {_words(error)}; wanted {wanted}") from error


def _read(path: Path) -> tuple[Any, int]:
    """What the pickle holds, and how many bytes it has."""
    try:
        data = path.read_bytes()
        return _ArraysOnly(io.BytesIO(data), encoding="latin1").load(), len(data)
    except Exception as error:
        # Damaged pickles fail in any way that the reader can fail; all mean the same here.
        wanted = "a pickle of arrays or lists"
        raise DataError(f"{path}: found {_words(error)}; wanted {wanted}") from error


def _words(error: Exception) -> str:
    return shortened(" ".join(str(error).split()) or type(error).__name__, 200)


def _array(noted: Any) -> NDArray[Any]:
    """The array that a pickle's state (version, shape, dtype, order, bytes) describes."""
    if not isinstance(noted, _Array) or not isinstance(noted.state, tuple):
        raise ValueError(f"a {type(noted).__name__.strip('_').lower()}")
    shape, kind, fortran, data = noted.state[-4:]
    dtype = _dtype(kind)
    raw = data.encode("latin1") if isinstance(data, str) else bytes(data)
    whole = isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)
    if not whole or math.prod(shape) * dtype.itemsize != len(raw):
        raise ValueError(f"an array of shape {shape} in {len(raw)} bytes")
    flat = np.frombuffer(raw, dtype).astype(dtype.newbyteorder("="))
    return flat.reshape(shape, order="F" if fortran else "C")


def _dtype(noted: Any) -> np.dtype[Any]:
    """Plain numbers alone, in the byte order that the state names."""
    if not isinstance(noted, _Type) or noted.arguments[0] not in _NUMBERS:
        raise ValueError("an array of something else than numbers")
    order = noted.state[1] if isinstance(noted.state, tuple) and len(noted.state) > 1 else "="
    if order not in ("<", ">", "=", "|"):
        raise ValueError(f"numbers in the byte order {order!r}")
    found: np.dtype[Any] = np.dtype(noted.arguments[0]).newbyteorder(order)
    return found


def _dense(noted: _Matrix, stored: int) -> NDArray[Any]:
    state = noted.state
    data, indices, indptr = (_array(state[name]) for name in ("data", "indices", "indptr"))
    return dense_csr(data, indices, indptr, tuple(state["_shape"]), stored)
