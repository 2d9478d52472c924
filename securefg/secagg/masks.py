"""Masks that vanish in the sum: generated in chunks and added where they are needed.

Client u uploads x_u + PRG(b_u) + sum_{v > u} PRG(k_uv) - sum_{v < u} PRG(k_uv) in Z_2^32 or
Z_2^64 (Bonawitz et al. 2017, section 4). Words are little endian; the arrays are changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import numpy as np

from securefg.secagg.prg import CHUNK_BYTES, Keystream, Room
from securefg.secagg.ring import RingArray
from securefg.secagg.secret import Secret


class Sign(Enum):
    """Whether a mask is added or subtracted."""

    ADD = "add"
    SUBTRACT = "subtract"

    @classmethod
    def of(cls, party: int, peer: int) -> Sign:
        """The lower party of a pair adds their mask, the higher one subtracts it."""
        if party == peer:
            raise ValueError(f"party {party} has no pair mask with itself")
        return cls.ADD if party < peer else cls.SUBTRACT

    def opposite_sign(self) -> Sign:
        """Return the sign that takes a mask off again."""
        return Sign.SUBTRACT if self is Sign.ADD else Sign.ADD


@dataclass(frozen=True)
class Mask:
    """A mask on a vector: the key of its keystream and whether it is added or subtracted."""

    key: Secret
    sign: Sign


@dataclass(frozen=True)
class RowMask:
    """A mask on rows of a batch: added to one, subtracted from another, either may be absent.

    A pair with both ends in the batch names both rows, and its mask is generated once. A self
    mask, or a pair whose other end lives elsewhere, names one.
    """

    key: Secret
    add_to: int | None
    subtract_from: int | None

    def __post_init__(self) -> None:
        # Added to and subtracted from one row, a mask would leave the upload bare.
        if self.add_to == self.subtract_from:
            raise ValueError(
                f"a mask must change something: add_to and subtract_from are both {self.add_to}"
            )


STREAMS_AT_ONCE: Final = 64
"""Masks of a batch whose keystreams advance together: a client's chunk stays in cache for them."""

_COMBINE: Final[dict[Sign, Callable[..., Any]]] = {Sign.ADD: np.add, Sign.SUBTRACT: np.subtract}


def apply_masks(vector: RingArray, masks: Iterable[Mask]) -> None:
    """Put all masks on one vector. A chunk of it stays in cache while every mask passes over."""
    _require_ring(vector, 1)
    streams = [(Keystream(mask.key), _COMBINE[mask.sign]) for mask in masks]
    buffer = _pad_buffer(vector)
    for stretch in _array_stretches(vector):
        part = vector[stretch]
        pad = buffer[: part.size]
        room = Room(pad)
        for stream, combine in streams:
            stream.fill_room(room)
            combine(part, pad, part)


def apply_row_masks(rows: RingArray, masks: Sequence[RowMask]) -> None:
    """Put masks on the rows of a batch, each generated once even when two rows take it."""
    _require_ring(rows, 2)
    _require_rows(masks, len(rows))
    buffer = _pad_buffer(rows)
    for start in range(0, len(masks), STREAMS_AT_ONCE):
        some = masks[start : start + STREAMS_AT_ONCE]
        streams = [Keystream(mask.key) for mask in some]
        for stretch in _array_stretches(rows):
            pad = buffer[: stretch.stop - stretch.start]
            room = Room(pad)
            for stream, mask in zip(streams, some, strict=True):
                stream.fill_room(room)
                _put_pad(rows, mask.add_to, stretch, np.add, pad)
                _put_pad(rows, mask.subtract_from, stretch, np.subtract, pad)


def _put_pad(
    rows: RingArray, row: int | None, stretch: slice, combine: Callable[..., Any], pad: RingArray
) -> None:
    if row is not None:
        part = rows[row, stretch]
        combine(part, pad, out=part)


def _pad_buffer(array: RingArray) -> RingArray:
    return np.empty(min(CHUNK_BYTES // array.itemsize, array.shape[-1]), array.dtype)


def _array_stretches(array: RingArray) -> Iterator[slice]:
    """The last axis cut in stretches of one chunk each."""
    length, step = array.shape[-1], CHUNK_BYTES // array.itemsize
    return (slice(start, min(start + step, length)) for start in range(0, length, step))


def _require_ring(array: RingArray, num_axes: int) -> None:
    little = array.dtype in (np.dtype("<u4"), np.dtype("<u8"))
    if not (little and array.ndim == num_axes and array.flags.c_contiguous):
        raise TypeError(
            f"masks go on a contiguous array of {num_axes} axes of little endian uint32 or "
            f"uint64, got {array.ndim} axes of {array.dtype}"
        )


def _require_rows(masks: Sequence[RowMask], num_rows: int) -> None:
    for mask in masks:
        for row in (mask.add_to, mask.subtract_from):
            if row is not None and not 0 <= row < num_rows:
                raise IndexError(f"mask names row {row} of a batch of {num_rows}")
