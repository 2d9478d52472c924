"""The ring Z_2^32 or Z_2^64 in which uploads are added, and its elements and bytes as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from securefg.foundation.errors import ConfigError, ProtocolError

RingArray = NDArray[np.uint32] | NDArray[np.uint64]
Integers = NDArray[np.signedinteger[Any]]

_DTYPES: Final[dict[int, np.dtype[Any]]] = {32: np.dtype("<u4"), 64: np.dtype("<u8")}


@dataclass(frozen=True)
class Ring:
    """Z_2^bits; the upper half stands for the negative numbers, as in two's complement."""

    bits: int = 32

    def __post_init__(self) -> None:
        if self.bits not in _DTYPES:
            raise ConfigError(f"ring bits: found {self.bits}, wanted one of {sorted(_DTYPES)}")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The unsigned little-endian type of the ring's elements."""
        return _DTYPES[self.bits]

    @property
    def largest(self) -> int:
        """The largest number whose sign survives: 2^(bits-1) - 1."""
        return (1 << (self.bits - 1)) - 1

    def from_signed(self, values: Integers) -> RingArray:
        """Refuses a value that is outside the ring; it never wraps one."""
        if values.size and (
            int(values.max()) > self.largest or int(values.min()) < -self.largest - 1
        ):
            raise ConfigError(f"a value lies outside the signed {self.bits}-bit ring")
        unsigned: RingArray = values.astype(self.dtype)
        return unsigned

    def to_signed(self, values: RingArray) -> NDArray[np.int64]:
        """Return ring elements as signed 64-bit numbers."""
        signed = values.view(np.dtype(f"<i{self.bits // 8}"))
        return signed.astype(np.int64)


def from_bytes(rows: Sequence[bytes]) -> Tensor:
    """Return byte strings of one length as the rows of a tensor of bytes."""
    joined = np.frombuffer(bytearray(b"".join(rows)), np.uint8)
    return torch.from_numpy(joined.reshape(len(rows), -1))


def to_bytes(rows: Tensor) -> list[bytes]:
    """Return the rows of a tensor as byte strings."""
    return [row.tobytes() for row in rows.numpy()]


def stack_rows(rows_of_each: Sequence[Sequence[bytes]]) -> Tensor | None:
    """Return every client's rows of byte strings as one tensor; of no client, None."""
    return torch.stack([from_bytes(rows) for rows in rows_of_each]) if rows_of_each else None


def rows_of_each(rows: Tensor | None, num_clients: int) -> list[list[bytes]]:
    """Return every client's rows of a tensor as byte strings; of None, no rows."""
    return [[]] * num_clients if rows is None else [to_bytes(each) for each in rows]


def from_ring(elements: RingArray) -> Tensor:
    """The same bits under a signed type: the codec has no other."""
    return torch.from_numpy(elements.view(np.dtype(f"<i{elements.itemsize}")))


def to_ring(values: Tensor, ring: Ring) -> RingArray:
    """A copy, as rows of ring elements; of a tensor of another width, an error."""
    if values.dtype != (torch.int32 if ring.bits == 32 else torch.int64):
        raise ProtocolError(f"found {values.dtype}, wanted elements of {ring.bits} bits")
    rows: RingArray = values.numpy().astype(f"<i{ring.bits // 8}").view(ring.dtype)
    return rows.reshape(len(rows), -1)
