"""Envelopes: who sends what to whom and when, around the bytes of a message, without any tensor.

    frame   = "SFG" version | header length (u32) | header (JSON) | body
    header  = {seq, round, step, sender, receiver, kind, clients}

`securefg.protocol.codec` makes bodies out of tensors. Nothing here imports torch, so a program that
only records arrays (`securefg.record`) starts at once.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from securefg.foundation.errors import CodecError
from securefg.foundation.quoting import shortened, shown

VERSION = 1
MAGIC = b"SFG"
MOST_CLIENTS = 10_000_000
LONGEST_KEPT = 10_000
LENGTH = struct.Struct("<I")
_CLIENTS = re.compile(r"(?:[0-9]{1,12}(?:-[0-9]{1,12})?(?:,|$))*")

Body = bytes | memoryview
"""An encoded message; of a frame that was received, the part of it where it lies."""


@dataclass(frozen=True)
class Clients:
    """A set of client numbers, held as sorted half-open ranges: short for whole hosts."""

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, numbers: Sequence[int] | NDArray[np.int64]) -> Clients:
        """Return these clients as ranges. A number may come twice."""
        unique = np.unique(np.asarray(numbers, np.int64))
        if not unique.size:
            return cls(())
        gaps = np.flatnonzero(np.diff(unique) > 1)
        lows = unique[np.concatenate([[0], gaps + 1])].tolist()
        highs = (unique[np.concatenate([gaps, [-1]])] + 1).tolist()
        return cls(tuple(zip(lows, highs, strict=True)))

    @classmethod
    def joined(cls, parts: Iterable[Clients]) -> Clients:
        """Return all clients of these sets. Cheap where they are whole hosts."""
        ranges: list[tuple[int, int]] = []
        for low, high in sorted(pair for part in parts for pair in part.ranges):
            if ranges and low <= ranges[-1][1]:
                ranges[-1] = (ranges[-1][0], max(high, ranges[-1][1]))
            else:
                ranges.append((low, high))
        return cls(tuple(ranges))

    @classmethod
    def parse(cls, text: str) -> Clients:
        """Return the inverse of `str`. More numbers than any run has clients are refused before
        they are listed."""
        # A long text may come from a lying party and is not kept in memory.
        read = _read_ranges if len(text) <= LONGEST_KEPT else _read_ranges.__wrapped__
        return cls(read(text))

    def __str__(self) -> str:
        return ",".join(f"{a}-{b - 1}" if b - a > 1 else f"{a}" for a, b in self.ranges)

    def __len__(self) -> int:
        return sum(high - low for low, high in self.ranges)

    def within(self, others: Clients) -> bool:
        """Return whether all of these are among the others, by the ranges alone."""
        return all(
            any(first <= low and high <= last for first, last in others.ranges)
            for low, high in self.ranges
        )

    def numbers(self) -> list[int]:
        """Return every client's number, ascending."""
        return [number for low, high in self.ranges for number in range(low, high)]

    def array(self) -> NDArray[np.int64]:
        """Return the numbers as an array, for what must not loop over a million users."""
        if not self.ranges:
            return np.zeros(0, np.int64)
        low, high = np.array(self.ranges, np.int64).T
        sizes = high - low
        starts = np.cumsum(sizes) - sizes
        found: NDArray[np.int64] = np.repeat(low - starts, sizes) + np.arange(sizes.sum())
        return found


@lru_cache(maxsize=256)
def _read_ranges(text: str) -> tuple[tuple[int, int], ...]:
    """Return what `Clients.parse` reads. Records of a run name the same few hosts again and
    again."""
    if not _CLIENTS.fullmatch(text):
        raise ValueError(f"{shown(text)}: wanted ascending numbers and ranges, such as 0-3,7")
    bounds = (part.partition("-") for part in text.split(",") if part)
    ranges = tuple((int(low), int(high or low) + 1) for low, _, high in bounds)
    flat = [end for pair in ranges for end in pair]
    if flat != sorted(flat) or any(low >= high for low, high in ranges):
        raise ValueError(f"{shown(text)}: wanted ascending numbers and ranges, such as 0-3,7")
    if flat and flat[-1] > MOST_CLIENTS:
        raise ValueError(f"{shown(text)}: wanted clients below {MOST_CLIENTS}")
    return ranges


@dataclass(frozen=True)
class Turn:
    """A time at which a message is made, and its clients. It names random streams and ledger
    entries."""

    round: int
    step: int
    clients: Clients
    attempt: int = 1


@dataclass(frozen=True)
class Envelope:
    """A message on its way. `clients`: whom the rows of the body belong to."""

    seq: int
    round: int
    step: int
    sender: str
    receiver: str
    kind: str
    clients: Clients
    body: Body

    def __repr__(self) -> str:
        route = f"{self.sender} -> {self.receiver}"
        return f"Envelope({self.seq}, {self.kind}, {route}, {len(self.body)} B)"


@dataclass(frozen=True)
class Size:
    """A number of encoded bytes: the arrays, and everything around them."""

    payload: int = 0
    envelope: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.payload + other.payload, self.envelope + other.envelope)


def frame(envelope: Envelope) -> bytes:
    """Return an envelope with its body as one frame."""
    return b"".join([*frame_head(envelope), envelope.body])


def frame_head(envelope: Envelope) -> list[bytes]:
    """Return the parts of a frame before its body."""
    header = json.dumps(
        {
            "seq": envelope.seq,
            "round": envelope.round,
            "step": envelope.step,
            "sender": envelope.sender,
            "receiver": envelope.receiver,
            "kind": envelope.kind,
            "clients": str(envelope.clients),
        },
        separators=(",", ":"),
    ).encode()
    return [MAGIC, bytes([VERSION]), LENGTH.pack(len(header)), header]


def unframe(data: Body) -> Envelope:
    """Return the envelope in a frame. Raise `CodecError` for anything else."""
    start = bytes(data[:3])
    if start != MAGIC:
        raise CodecError(f"not a securefg message: it starts with {start!r}, wanted {MAGIC!r}")
    if data[3:4] != bytes([VERSION]):
        found = data[3] if len(data) > 3 else "nothing"
        raise CodecError(f"a message of version {found}; this is version {VERSION}")
    head, offset = read_block(data, 4)
    header = parse_header(head)
    try:
        clients = Clients.parse(header.pop("clients"))
        return Envelope(**header, clients=clients, body=memoryview(data)[offset:])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = shortened(str(error), 200)
        raise CodecError(f"a message header that cannot be read: {reason}") from error


def size_of(framed: Body) -> Size:
    """Return payload and envelope of an encoded message."""
    _, body = read_block(framed, 4)
    _, arrays = read_block(framed, body)
    if len(framed) < arrays + 8:
        raise CodecError("a message that ends in the middle")
    header_length = struct.unpack_from("<Q", framed, arrays)[0]
    if len(framed) < arrays + 8 + header_length:
        raise CodecError("a message that ends in the middle")
    payload = len(framed) - arrays - 8 - header_length
    return Size(payload, len(framed) - payload)


def read_block(data: Body, offset: int) -> tuple[bytes, int]:
    """Return the block at `offset`, which its own length precedes, and where it ends."""
    if len(data) < offset + LENGTH.size:
        raise CodecError("a message that ends in the middle")
    (length,) = LENGTH.unpack_from(data, offset)
    end = offset + LENGTH.size + length
    if len(data) < end:
        raise CodecError("a message that ends in the middle")
    return bytes(data[offset + LENGTH.size : end]), end


def parse_header(head: bytes) -> dict[str, Any]:
    """Return the object in a header. Raise `CodecError` for anything else."""
    try:
        parsed = json.loads(head)
    except (ValueError, RecursionError) as error:
        reason = shortened(str(error), 200)
        raise CodecError(f"a message header that cannot be read: {reason}") from error
    if not isinstance(parsed, dict):
        raise CodecError("a message header that is not an object")
    return parsed
