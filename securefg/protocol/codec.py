"""The codec: the one encoding of messages and envelopes, safetensors behind a versioned header.

    frame   = "SFG" version | header length (u32) | header (JSON) | body
    header  = {seq, round, step, sender, receiver, kind, clients}
    body    = scalars length (u32) | scalars (JSON) | arrays (safetensors)

Never pickle. `payload` is what the arrays weigh, the envelope all the rest; both are counted.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from securefg.foundation.errors import CodecError
from securefg.foundation.quoting import shortened, shown
from securefg.protocol.arrays import Stored, read_arrays, write_arrays
from securefg.protocol.messages import Message, Scalar, Value

M = TypeVar("M", bound=Message)

VERSION = 1
MAGIC = b"SFG"
MOST_CLIENTS = 10_000_000
LONGEST_KEPT = 10_000
_LENGTH = struct.Struct("<I")
_CLIENTS = re.compile(r"(?:[0-9]{1,12}(?:-[0-9]{1,12})?(?:,|$))*")

Body = bytes | memoryview
"""An encoded message; of a frame that was received, the part of it where it lies."""


@dataclass(frozen=True)
class Clients:
    """A set of client numbers, held as sorted half-open ranges: short for whole hosts."""

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, numbers: Sequence[int] | NDArray[np.int64]) -> Clients:
        """Return these clients as ranges; a number may come twice."""
        unique = np.unique(np.asarray(numbers, np.int64))
        if not unique.size:
            return cls(())
        gaps = np.flatnonzero(np.diff(unique) > 1)
        lows = unique[np.concatenate([[0], gaps + 1])].tolist()
        highs = (unique[np.concatenate([gaps, [-1]])] + 1).tolist()
        return cls(tuple(zip(lows, highs, strict=True)))

    @classmethod
    def joined(cls, parts: Iterable[Clients]) -> Clients:
        """All clients of these sets; cheap where they are whole hosts."""
        ranges: list[tuple[int, int]] = []
        for low, high in sorted(pair for part in parts for pair in part.ranges):
            if ranges and low <= ranges[-1][1]:
                ranges[-1] = (ranges[-1][0], max(high, ranges[-1][1]))
            else:
                ranges.append((low, high))
        return cls(tuple(ranges))

    @classmethod
    def parse(cls, text: str) -> Clients:
        """The inverse of `str`. More numbers than any run has clients are refused here, before
        somebody lists them."""
        # A long text may come from a lying party and is not kept in memory.
        read = _ranges if len(text) <= LONGEST_KEPT else _ranges.__wrapped__
        return cls(read(text))

    def __str__(self) -> str:
        return ",".join(f"{a}-{b - 1}" if b - a > 1 else f"{a}" for a, b in self.ranges)

    def __len__(self) -> int:
        return sum(high - low for low, high in self.ranges)

    def within(self, others: Clients) -> bool:
        """Whether all of these are among the others, by the ranges alone."""
        return all(
            any(first <= low and high <= last for first, last in others.ranges)
            for low, high in self.ranges
        )

    def numbers(self) -> list[int]:
        """Return every client's number, ascending."""
        return [number for low, high in self.ranges for number in range(low, high)]

    def array(self) -> NDArray[np.int64]:
        """The numbers as an array, for what must not loop over a million users."""
        if not self.ranges:
            return np.zeros(0, np.int64)
        low, high = np.array(self.ranges, np.int64).T
        sizes = high - low
        starts = np.cumsum(sizes) - sizes
        found: NDArray[np.int64] = np.repeat(low - starts, sizes) + np.arange(sizes.sum())
        return found


@lru_cache(maxsize=256)
def _ranges(text: str) -> tuple[tuple[int, int], ...]:
    """What `Clients.parse` reads; records of a run name the same few hosts again and again."""
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
    """When a message is made and for whom: names the random streams, and the ledger's entries."""

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
    """Encoded bytes: the arrays, and everything around them."""

    payload: int = 0
    envelope: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.payload + other.payload, self.envelope + other.envelope)


def encode_fields(values: Mapping[str, Value]) -> bytes:
    """Return the bytes of named values: scalars as JSON, then arrays as safetensors."""
    return b"".join(_parts(values))


def decode_fields(body: Body) -> dict[str, Tensor | Scalar]:
    """The fields that a body holds, whatever its kind; the arrays in memory of their own."""
    return {name: _own(value) for name, value in _stored_fields(body).items()}


def _parts(values: Mapping[str, Value]) -> list[Body]:
    """What a body is made of, so that a frame can be joined around it in one copy."""
    arrays = {k: v for k, v in values.items() if isinstance(v, Tensor)}
    scalars = {k: v for k, v in values.items() if not isinstance(v, Tensor) and v is not None}
    head = json.dumps(scalars, separators=(",", ":"), allow_nan=False).encode()
    return [_LENGTH.pack(len(head)), head, *write_arrays(arrays)]


def _stored_fields(body: Body) -> dict[str, Stored | Scalar]:
    head, offset = _read_block(body, 0)
    return {**_parse_json(head), **read_arrays(memoryview(body)[offset:])}


def _own(value: Stored | Scalar) -> Tensor | Scalar:
    return value.tensor() if isinstance(value, Stored) else value


def encode(message: Message) -> bytes:
    """Return the bytes of a message's fields."""
    return encode_fields(message.values())


def decode(body: Body, into: type[M]) -> M:
    """The message of class `into`; its fields must be just those of the class."""
    found: dict[str, Any] = read(body, into)
    return into(**{name: _own(value) for name, value in found.items()})


def read(body: Body, into: type[Message]) -> dict[str, Stored | Scalar | None]:
    """The fields of a message of class `into`, None for those that did not come; the arrays still
    lie in the body."""
    found = _stored_fields(body)
    unknown = sorted(found.keys() - into.declarations.keys())
    if unknown:
        raise CodecError(f"{into.kind} has no field {', '.join(unknown)}")
    missing = sorted(into.declarations.keys() - into.optional - found.keys())
    if missing:
        raise CodecError(f"{into.kind} came without its field {', '.join(missing)}")
    for name, value in found.items():
        kind = Tensor if isinstance(value, Stored) else type(value)
        if kind not in into.types[name]:
            wanted = " or ".join(sorted(kind.__name__ for kind in into.types[name]))
            raise CodecError(f"{into.kind}.{name} is {kind.__name__}, wanted {wanted}")
    return {name: found.get(name) for name in into.declarations}


def frame(envelope: Envelope) -> bytes:
    """Return an envelope with its body as one frame."""
    return b"".join([*_frame_head(envelope), envelope.body])


def frame_fields(envelope: Envelope, values: Mapping[str, Value]) -> bytes:
    """As `frame`, with these fields as the body: arrays are copied once, into the frame."""
    return b"".join([*_frame_head(envelope), *_parts(values)])


def _frame_head(envelope: Envelope) -> list[bytes]:
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
    return [MAGIC, bytes([VERSION]), _LENGTH.pack(len(header)), header]


def unframe(data: Body) -> Envelope:
    """Return the envelope in a frame; raise `CodecError` for anything else."""
    start = bytes(data[:3])
    if start != MAGIC:
        raise CodecError(f"not a securefg message: it starts with {start!r}, wanted {MAGIC!r}")
    if data[3:4] != bytes([VERSION]):
        found = data[3] if len(data) > 3 else "nothing"
        raise CodecError(f"a message of version {found}; this is version {VERSION}")
    head, offset = _read_block(data, 4)
    header = _parse_json(head)
    try:
        clients = Clients.parse(header.pop("clients"))
        return Envelope(**header, clients=clients, body=memoryview(data)[offset:])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = shortened(str(error), 200)
        raise CodecError(f"a message header that cannot be read: {reason}") from error


def size_of(framed: Body) -> Size:
    """Payload and envelope of an encoded message."""
    _, body = _read_block(framed, 4)
    _, arrays = _read_block(framed, body)
    if len(framed) < arrays + 8:
        raise CodecError("a message that ends in the middle")
    header_length = struct.unpack_from("<Q", framed, arrays)[0]
    if len(framed) < arrays + 8 + header_length:
        raise CodecError("a message that ends in the middle")
    payload = len(framed) - arrays - 8 - header_length
    return Size(payload, len(framed) - payload)


def _read_block(data: Body, offset: int) -> tuple[bytes, int]:
    if len(data) < offset + _LENGTH.size:
        raise CodecError("a message that ends in the middle")
    (length,) = _LENGTH.unpack_from(data, offset)
    end = offset + _LENGTH.size + length
    if len(data) < end:
        raise CodecError("a message that ends in the middle")
    return bytes(data[offset + _LENGTH.size : end]), end


def _parse_json(head: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(head)
    except (ValueError, RecursionError) as error:
        reason = shortened(str(error), 200)
        raise CodecError(f"a message header that cannot be read: {reason}") from error
    if not isinstance(parsed, dict):
        raise CodecError("a message header that is not an object")
    return parsed
