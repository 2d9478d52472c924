"""Byte strings of one length as the rows of a tensor, ring elements as signed ones, and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from securefg.foundation.errors import ProtocolError
from securefg.secagg.ring import Ring, RingArray


def from_bytes(rows: Sequence[bytes]) -> Tensor:
    joined = np.frombuffer(bytearray(b"".join(rows)), np.uint8)
    return torch.from_numpy(joined.reshape(len(rows), -1))


def to_bytes(rows: Tensor) -> list[bytes]:
    return [row.tobytes() for row in rows.numpy()]


def from_ring(elements: RingArray) -> Tensor:
    """The same bits under a signed type: the codec has no other."""
    return torch.from_numpy(elements.view(np.dtype(f"<i{elements.itemsize}")))


def to_ring(values: Tensor, ring: Ring) -> RingArray:
    """A copy, as rows of ring elements; of a tensor of another width, an error."""
    if values.dtype != (torch.int32 if ring.bits == 32 else torch.int64):
        raise ProtocolError(f"found {values.dtype}, wanted elements of {ring.bits} bits")
    rows: RingArray = values.numpy().astype(f"<i{ring.bits // 8}").view(ring.dtype)
    return rows.reshape(len(rows), -1)
