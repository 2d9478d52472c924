"""Arrays as bytes: the safetensors layout, written and read in place.

    arrays = header length (u64) | header (JSON, spaces up to 8 bytes) | array*
    header = {name: {dtype, shape, data_offsets}}, by dtype (the last of DTYPES first), then name

The bytes are those of the safetensors library, without its copies. Bytes are read where they lie
only if their header is just what would be written for the arrays in it; all else goes to the
library, which reads or refuses it.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from securefg.foundation.errors import CodecError

DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "I16": torch.int16,
    "U16": torch.uint16,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I32": torch.int32,
    "U32": torch.uint32,
    "F32": torch.float32,
    "C64": torch.complex64,
    "F64": torch.float64,
    "I64": torch.int64,
    "U64": torch.uint64,
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_RANKS = {name: rank for rank, name in enumerate(DTYPES)}
_LENGTH = struct.Struct("<Q")
_LONGEST_HEADER = 100_000_000  # the library's limit
_MOST_ITEMS = 2**48  # far from where the library, or torch, would overflow
_PIECE = 2**20
_READ_IN_PLACE = {torch.float32: "<f4", torch.float64: "<f8"}
"""Types that NumPy can read without a copy; torch has no tensors over memory that is read-only."""
_TEXT = json.JSONEncoder(ensure_ascii=False)


@dataclass(frozen=True)
class Stored:
    """An array within received bytes. It cannot be written to: a transcript or another host may
    read the same bytes, and torch has no tensors that are read-only."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    data: memoryview

    def tensor(self) -> Tensor:
        """Return the array in memory of its own."""
        if not self.data:
            return torch.empty(self.shape, dtype=self.dtype)
        return torch.frombuffer(bytearray(self.data), dtype=self.dtype).reshape(self.shape)


def all_finite(values: Tensor | Stored) -> bool:
    """Return whether all numbers are finite. They are read piece by piece, since `isfinite` of a
    large array makes others as large."""
    if not values.dtype.is_floating_point:
        return True
    if isinstance(values, Stored) and values.dtype in _READ_IN_PLACE:
        read = np.frombuffer(values.data, _READ_IN_PLACE[values.dtype])
        return not read.size or (math.isfinite(read.min()) and math.isfinite(read.max()))
    return all(_ends_are_finite(_to_ordered(piece)) for piece in _tensor_pieces(values))


def _ends_are_finite(values: Tensor) -> bool:
    low, high = torch.aminmax(values)  # of values with a NaN, both are NaN
    return math.isfinite(low) and math.isfinite(high)


def _to_ordered(values: Tensor) -> Tensor:
    """Return the array in a type with an order. Numbers of one byte have no order in PyTorch."""
    return values.float() if values.dtype.itemsize == 1 else values


def _tensor_pieces(values: Tensor | Stored) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        flat = values.detach()
        if 0 < flat.numel() <= _PIECE:
            yield flat
        else:
            yield from torch.split(flat.reshape(-1), _PIECE) if flat.numel() else ()
        return
    step = _PIECE * values.dtype.itemsize
    for at in range(0, len(values.data), step):
        yield torch.frombuffer(bytearray(values.data[at : at + step]), dtype=values.dtype)


def concatenate_arrays(parts: Sequence[Stored]) -> Tensor:
    """Return arrays that differ in their first axis alone, joined along it, in memory of their
    own."""
    if len(parts) == 1:
        return parts[0].tensor()
    rows = sum(part.shape[0] for part in parts)
    whole = torch.empty((rows, *parts[0].shape[1:]), dtype=parts[0].dtype)
    into, start = _bytes_of(whole), 0
    for part in parts:
        into[start : start + len(part.data)] = part.data
        start += len(part.data)
    return whole


def _bytes_of(array: Tensor) -> memoryview:
    """Return the memory of a contiguous array."""
    return array.view(-1).view(torch.uint8).numpy().data


def write_arrays(arrays: Mapping[str, Tensor]) -> list[bytes | memoryview]:
    """Return the parts that, joined, are the arrays' bytes. They show the arrays as they are now:
    join them before anyone can write to these."""
    ready = {name: array.detach().cpu().contiguous() for name, array in arrays.items()}
    unknown = sorted(str(a.dtype) for a in ready.values() if a.dtype not in _NAMES)
    if unknown:
        raise CodecError(f"no array of {', '.join(unknown)} can be sent; allowed: {list(DTYPES)}")
    kinds = [(name, _NAMES[array.dtype], list(array.shape)) for name, array in ready.items()]
    kinds.sort(key=_kind_place)
    return [_encode_header(kinds), *(_bytes_of(ready[name]) for name, _, _ in kinds)]


def read_arrays(data: memoryview) -> dict[str, Stored]:
    """Return the arrays in safetensors bytes, by name."""
    found = _as_written(data)
    return _by_library(data) if found is None else found


def _as_written(data: memoryview) -> dict[str, Stored] | None:
    """Return the arrays where they lie, or None unless `write_arrays` could have written just these
    bytes."""
    try:
        end = _LENGTH.size + min(_LENGTH.unpack_from(data)[0], _LONGEST_HEADER)
        header = bytes(data[:end])
        kinds = [_entry_kind(*item) for item in json.loads(header[_LENGTH.size :].decode()).items()]
        if header != _encode_header(sorted(kinds, key=_kind_place)):
            return None
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    stored_arrays = {}
    for name, dtype, shape in kinds:
        start, end = end, end + _entry_size(dtype, shape)
        stored_arrays[name] = Stored(DTYPES[dtype], tuple(shape), data[start:end].toreadonly())
    return stored_arrays if end == len(data) else None


def _entry_kind(name: str, entry: dict[str, Any]) -> tuple[str, str, list[int]]:
    """Name, dtype and shape of a header's entry, or a ValueError. The library takes one name for
    its own, and refuses sizes that would overflow even where another size is zero."""
    dtype, shape = entry["dtype"], entry["shape"]
    whole = type(shape) is list and all(type(size) is int and size >= 0 for size in shape)
    known = dtype in DTYPES and name != "__metadata__"
    if not (known and whole and math.prod(max(size, 1) for size in shape) < _MOST_ITEMS):
        raise ValueError(f"an array that is read by the library: {name}")
    return name, dtype, shape


def _kind_place(kind: tuple[str, str, list[int]]) -> tuple[int, str]:
    return -_RANKS[kind[1]], kind[0]


def _entry_size(dtype: str, shape: list[int]) -> int:
    return math.prod(shape) * DTYPES[dtype].itemsize


def _encode_header(kinds: Sequence[tuple[str, str, list[int]]]) -> bytes:
    entries, end = [], 0
    for name, dtype, shape in kinds:
        start, end = end, end + _entry_size(dtype, shape)
        sizes, offsets = ",".join(map(str, shape)), f"{start},{end}"
        entry = f'{{"dtype":"{dtype}","shape":[{sizes}],"data_offsets":[{offsets}]}}'
        entries.append(f"{_TEXT.encode(name)}:{entry}")
    text = f"{{{','.join(entries)}}}".encode()
    text += b" " * (-len(text) % 8)
    return _LENGTH.pack(len(text)) + text


def _by_library(data: memoryview) -> dict[str, Stored]:
    try:
        arrays = safetensors.torch.load(bytes(data))
    except (safetensors.SafetensorError, KeyError, RuntimeError, TypeError) as error:
        raise CodecError(f"the arrays of a message cannot be read: {error}") from error
    return {
        name: Stored(array.dtype, tuple(array.shape), _bytes_of(array).toreadonly())
        for name, array in arrays.items()
    }


def num_rows(values: Tensor) -> int:
    """Return rows in one client's array: all axes but the client's and the last."""
    return math.prod(values.shape[1:-1])
