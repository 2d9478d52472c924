"""The codec: the one encoding of messages, safetensors behind a versioned header.

    frame   = "SFG" version | header length (u32) | header (JSON) | body   (`envelopes.py`)
    body    = scalars length (u32) | scalars (JSON) | arrays (safetensors)

Never pickle. `payload` is what the arrays weigh, the envelope all the rest. Both are counted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from torch import Tensor

from securefg.foundation.errors import CodecError
from securefg.protocol.arrays import Stored, read_arrays, write_arrays
from securefg.protocol.envelopes import LENGTH, frame_head, parse_header, read_block
from securefg.protocol.envelopes import VERSION as VERSION
from securefg.protocol.envelopes import Body as Body
from securefg.protocol.envelopes import Clients as Clients
from securefg.protocol.envelopes import Envelope as Envelope
from securefg.protocol.envelopes import Size as Size
from securefg.protocol.envelopes import Turn as Turn
from securefg.protocol.envelopes import frame as frame
from securefg.protocol.envelopes import size_of as size_of
from securefg.protocol.envelopes import unframe as unframe
from securefg.protocol.messages import Message, Scalar, Value

M = TypeVar("M", bound=Message)
ENCLOSED = "enclosed/"
"""Before the names of arrays that are no fields of a message: sealed boxes beside a reply."""


def encode_fields(values: Mapping[str, Value]) -> bytes:
    """Return the bytes of named values: scalars as JSON, then arrays as safetensors."""
    return b"".join(_body_parts(values))


def decode_fields(body: Body) -> dict[str, Tensor | Scalar]:
    """Return the fields that a body holds, whatever its kind, with arrays in memory of their
    own."""
    return {name: _own_value(value) for name, value in _stored_fields(body).items()}


def _body_parts(values: Mapping[str, Value]) -> list[Body]:
    """Return the parts of a body, so that a frame can be joined around it in one copy."""
    arrays = {k: v for k, v in values.items() if isinstance(v, Tensor)}
    scalars = {k: v for k, v in values.items() if not isinstance(v, Tensor) and v is not None}
    head = json.dumps(scalars, separators=(",", ":"), allow_nan=False).encode()
    return [LENGTH.pack(len(head)), head, *write_arrays(arrays)]


def _stored_fields(body: Body) -> dict[str, Stored | Scalar]:
    head, offset = read_block(body, 0)
    return {**parse_header(head), **read_arrays(memoryview(body)[offset:])}


def _own_value(value: Stored | Scalar) -> Tensor | Scalar:
    return value.tensor() if isinstance(value, Stored) else value


def encode(message: Message) -> bytes:
    """Return the bytes of a message's fields."""
    return encode_fields(message.values())


def decode(body: Body, into: type[M]) -> M:
    """Return the message of class `into`. Its fields must be just those of the class."""
    found: dict[str, Any] = read(body, into)
    return into(**{name: _own_value(value) for name, value in found.items()})


def enclosed_names(arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return arrays under the names by which they travel beside the fields of a message."""
    return {ENCLOSED + name: array for name, array in arrays.items()}


def read_enclosed(body: Body) -> dict[str, Stored]:
    """Return the arrays that travel beside the fields of a message; they still lie in the body."""
    return {
        name.removeprefix(ENCLOSED): value
        for name, value in _stored_fields(body).items()
        if name.startswith(ENCLOSED) and isinstance(value, Stored)
    }


def read(
    body: Body, into: type[Message], *, has_enclosures: bool = False
) -> dict[str, Stored | Scalar | None]:
    """Return the fields of a message of class `into`, None for those that did not come. The arrays
    still lie in the body.

    has_enclosures  whether key material may travel beside the fields (`read_enclosed`)
    """
    stored_fields = _stored_fields(body)
    if has_enclosures:
        stored_fields = {n: v for n, v in stored_fields.items() if not n.startswith(ENCLOSED)}
    unknown = sorted(stored_fields.keys() - into.declarations.keys())
    if unknown:
        raise CodecError(f"{into.kind} has no field {', '.join(unknown)}")
    missing = sorted(into.declarations.keys() - into.optional - stored_fields.keys())
    if missing:
        raise CodecError(f"{into.kind} came without its field {', '.join(missing)}")
    for name, value in stored_fields.items():
        kind = Tensor if isinstance(value, Stored) else type(value)
        if kind not in into.types[name]:
            wanted = " or ".join(sorted(kind.__name__ for kind in into.types[name]))
            raise CodecError(f"{into.kind}.{name} is {kind.__name__}, wanted {wanted}")
    return {name: stored_fields.get(name) for name in into.declarations}


def frame_fields(envelope: Envelope, values: Mapping[str, Value]) -> bytes:
    """Return a `frame` with these fields as the body. Arrays are copied once, into the frame."""
    return b"".join([*frame_head(envelope), *_body_parts(values)])
