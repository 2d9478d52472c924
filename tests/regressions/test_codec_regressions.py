"""Bytes that once slipped through the codec, or brought it down with an error not its own."""

from __future__ import annotations

import json
import struct

import pytest
import torch
from safetensors.torch import save
from torch import Tensor

from securefg.foundation.errors import CodecError
from securefg.protocol import codec
from securefg.protocol.codec import Clients, Envelope
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, private


class Tell(Message, kind="test_codec_regressions.Tell"):
    x: Tensor = private("sum", "x", means=Other())
    y: Tensor | None = private("each", "y", means=Other())


def body_of(scalars: bytes, arrays: bytes) -> bytes:
    return struct.pack("<I", len(scalars)) + scalars + arrays


def a_frame() -> bytes:
    body = codec.encode(Tell(x=torch.ones(1, 3), y=None))
    return codec.frame(Envelope(1, 1, 1, "host-0", "server", Tell.kind, Clients(((0, 1),)), body))


def test_one_tensor_in_two_fields_comes_back_in_both() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    back = codec.decode(codec.encode(Tell(x=x, y=x)), Tell)
    assert torch.equal(back.x, x)
    assert back.y is not None
    assert torch.equal(back.y, x)


@pytest.mark.parametrize("scalars", [b'{"x":"boo"}', b'{"x":1.5}', b'{"x":null}'])
def test_what_is_no_array_is_refused_where_an_array_is_wanted(scalars: bytes) -> None:
    with pytest.raises(CodecError, match=r"Tell\.x is \w+, wanted Tensor"):
        codec.decode(body_of(scalars, save({})), Tell)


def test_json_that_nests_too_deep_is_a_codec_error() -> None:
    with pytest.raises(CodecError, match="header that cannot be read"):
        codec.decode_fields(body_of(b'{"x":' + b"[" * 100_000, save({})))


def test_a_dtype_that_torch_does_not_know_is_a_codec_error() -> None:
    array = {"dtype": "F8_E8M0", "shape": [2], "data_offsets": [0, 2]}
    header = json.dumps({"x": array}).encode()
    arrays = struct.pack("<Q", len(header)) + header + b"\0\0"
    with pytest.raises(CodecError, match="arrays of a message cannot be read"):
        codec.decode_fields(body_of(b"{}", arrays))


@pytest.mark.parametrize("shape", [[0, 2**62, 2**62], [0, 2**63]])
def test_an_empty_array_of_a_shape_that_torch_cannot_have_is_a_codec_error(
    shape: list[int],
) -> None:
    array = {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}
    header = json.dumps({"x": array}).encode()
    with pytest.raises(CodecError, match="arrays of a message cannot be read"):
        codec.decode_fields(body_of(b"{}", struct.pack("<Q", len(header)) + header))


def test_the_size_of_a_message_cut_before_its_arrays_is_a_codec_error() -> None:
    """A cut within the arrays cannot be seen from outside them; reading them finds it."""
    whole = a_frame()
    start = len(whole) - codec.size_of(whole).payload
    assert start == len(whole) - 12
    for length in range(start):
        with pytest.raises(CodecError):
            codec.size_of(whole[:length])


@pytest.mark.parametrize("text", ["5-3", "1-3,2", "3,1"])
def test_client_numbers_that_do_not_ascend_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="wanted ascending numbers and ranges"):
        Clients.parse(text)


@pytest.mark.parametrize("text", ["5-3", "1-3,2", "3,1"])
def test_a_message_whose_client_numbers_do_not_ascend_is_a_codec_error(text: str) -> None:
    whole = a_frame()
    header = json.loads(whole[8 : 8 + struct.unpack_from("<I", whole, 4)[0]])
    changed = json.dumps({**header, "clients": text}).encode()
    with pytest.raises(CodecError, match="header that cannot be read"):
        codec.unframe(whole[:4] + struct.pack("<I", len(changed)) + changed)
