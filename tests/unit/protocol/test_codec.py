"""The codec carries every message unchanged, counts its bytes, and refuses all else."""

from __future__ import annotations

import json
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save
from torch import Tensor

from securefg.foundation.errors import CodecError
from securefg.protocol import codec
from securefg.protocol.codec import Clients, Envelope, Size
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, private, public
from tests.unit.random_arrays import made

DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


class Packet(Message, kind="test_codec.Packet"):
    rows: Tensor = private("each", "values", means=Other())
    others: Tensor | None = private("sum", "other values", means=Other())
    text: str = public("a word")
    number: float = public("a number")
    count: int | None = public("a count")
    flag: bool = public("a choice")


def a_packet() -> Packet:
    rows = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    return Packet(rows=rows, others=None, text="träume", number=0.1, count=7, flag=True)


def framed(body: bytes) -> bytes:
    clients = Clients(((0, 2), (5, 6)))
    return codec.frame(Envelope(3, 2, 1, "client-0", "server", Packet.kind, clients, body))


def a_frame() -> bytes:
    return framed(codec.encode(a_packet()))


def read(data: bytes) -> Packet:
    return codec.decode(codec.unframe(data).body, Packet)


def body_of(scalars: bytes, arrays: bytes) -> bytes:
    return struct.pack("<I", len(scalars)) + scalars + arrays


def frame_with_header(header: bytes) -> bytes:
    return b"SFG" + bytes([codec.VERSION]) + struct.pack("<I", len(header)) + header


def bits(array: Tensor) -> tuple[torch.dtype, torch.Size, list[int]]:
    return array.dtype, array.shape, array.flatten().view(torch.uint8).tolist()


tensors = st.builds(made, SHAPES, st.sampled_from(DTYPES), st.integers(0, 2**32 - 1))


@settings(max_examples=100)
@given(
    tensors,
    st.none() | tensors,
    st.text(max_size=20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.none() | st.integers(-(2**63), 2**63),
    st.booleans(),
)
def test_what_is_decoded_is_what_was_encoded_to_the_bit(
    rows: Tensor, others: Tensor | None, text: str, number: float, count: int | None, flag: bool
) -> None:
    packet = Packet(rows=rows, others=others, text=text, number=number, count=count, flag=flag)
    back = codec.decode(codec.encode(packet), Packet)
    assert bits(back.rows) == bits(rows)
    assert (back.others is None) == (others is None)
    if others is not None and back.others is not None:
        assert bits(back.others) == bits(others)
    assert (back.text, back.number, back.count, back.flag) == (text, number, count, flag)


@settings(max_examples=100)
@given(tensors, st.none() | tensors)
def test_payload_is_the_bytes_of_the_arrays_and_the_envelope_all_the_rest(
    rows: Tensor, others: Tensor | None
) -> None:
    data = framed(
        codec.encode(Packet(rows=rows, others=others, text="", number=0.0, count=None, flag=False))
    )
    size = codec.size_of(data)
    assert size.payload == rows.nbytes + (0 if others is None else others.nbytes)
    assert size.payload + size.envelope == len(data)


def test_sizes_add_up_part_by_part() -> None:
    assert Size(1, 2) + Size(10, 20) == Size(11, 22)


def test_a_strided_array_with_a_gradient_is_carried() -> None:
    rows = torch.arange(12.0).reshape(3, 4).T.requires_grad_()
    packet = Packet(rows=rows, others=None, text="", number=0.0, count=None, flag=False)
    assert torch.equal(codec.decode(codec.encode(packet), Packet).rows, rows.detach())


def test_a_frame_around_fields_is_the_frame_of_their_body() -> None:
    values, clients = a_packet().values(), Clients(((0, 2), (5, 6)))
    empty = Envelope(3, 2, 1, "client-0", "server", Packet.kind, clients, b"")
    assert codec.frame_fields(empty, values) == a_frame()


def test_a_decoded_array_is_its_receivers_own() -> None:
    """Writing to it changes neither the bytes, nor what another reads from them."""
    data = a_frame()
    first, second = read(data), read(data)
    first.rows.fill_(-1)
    assert torch.equal(second.rows, a_packet().rows)
    assert data == a_frame()


def test_an_encoded_array_is_a_copy() -> None:
    packet = a_packet()
    data = framed(codec.encode(packet))
    packet.rows.fill_(-1)
    assert data == a_frame()


def test_a_body_lies_in_its_frame_and_cannot_be_written_to() -> None:
    body = codec.unframe(a_frame()).body
    assert isinstance(body, memoryview)
    assert body.readonly


def test_the_same_message_has_the_same_bytes() -> None:
    assert a_frame() == a_frame()


def test_an_envelope_comes_back_whole() -> None:
    envelope = codec.unframe(a_frame())
    assert codec.frame(envelope) == a_frame()
    assert (envelope.seq, envelope.round, envelope.step) == (3, 2, 1)
    assert (envelope.sender, envelope.receiver) == ("client-0", "server")
    assert envelope.clients.numbers() == [0, 1, 5]


def test_repr_of_an_envelope_shows_the_size_of_its_body_alone() -> None:
    shown = repr(codec.unframe(framed(b"secret")))
    assert shown == "Envelope(3, test_codec.Packet, client-0 -> server, 6 B)"


def test_another_magic_is_refused() -> None:
    with pytest.raises(CodecError, match=r"starts with b'PK\\x03', wanted b'SFG'"):
        codec.unframe(b"PK\x03" + a_frame()[3:])


def test_another_version_is_refused() -> None:
    with pytest.raises(CodecError, match="a message of version 2; this is version 1"):
        codec.unframe(b"SFG\x02" + a_frame()[4:])


def test_a_message_cut_at_any_byte_is_refused() -> None:
    whole = a_frame()
    for length in range(len(whole)):
        with pytest.raises(CodecError):
            read(whole[:length])


def test_a_length_that_passes_the_end_is_refused() -> None:
    """Though all that is there could be read."""
    whole = framed(b"")
    longer = whole[:4] + struct.pack("<I", len(whole)) + whole[8:]
    with pytest.raises(CodecError, match="ends in the middle"):
        codec.unframe(longer)


def test_a_changed_byte_gives_a_message_or_a_codec_error() -> None:
    whole, stream = a_frame(), torch.Generator().manual_seed(0)
    refused = 0
    for place, value in zip(
        torch.randint(len(whole), (2000,), generator=stream).tolist(),
        torch.randint(256, (2000,), generator=stream).tolist(),
        strict=True,
    ):
        try:
            read(whole[:place] + bytes([value]) + whole[place + 1 :])
        except CodecError:
            refused += 1
    assert refused > 1000


@settings(max_examples=200)
@given(st.binary(max_size=80))
def test_noise_after_a_good_start_is_a_codec_error(noise: bytes) -> None:
    with pytest.raises(CodecError):
        read(b"SFG" + bytes([codec.VERSION]) + noise)


def test_bytes_after_the_arrays_are_refused() -> None:
    with pytest.raises(CodecError, match="arrays of a message cannot be read"):
        read(a_frame() + b"x")


def test_an_unknown_field_is_refused() -> None:
    body = codec.encode_fields({**a_packet().values(), "labels": torch.ones(2)})
    with pytest.raises(CodecError, match=r"test_codec\.Packet has no field labels"):
        codec.decode(body, Packet)


@pytest.mark.parametrize("name", ["rows", "text", "number", "flag"])
def test_a_missing_field_is_refused(name: str) -> None:
    rest = {key: value for key, value in a_packet().values().items() if key != name}
    with pytest.raises(CodecError, match=f"came without its field {name}"):
        codec.decode(codec.encode_fields(rest), Packet)


def test_a_field_that_may_be_none_need_not_come() -> None:
    rest = {k: v for k, v in a_packet().values().items() if k not in ("others", "count")}
    packet = codec.decode(codec.encode_fields(rest), Packet)
    assert packet.others is None
    assert packet.count is None


@pytest.mark.parametrize("scalars", [b"[1]", b"3", b"{", b"\xff\xfe", b""])
def test_scalars_that_are_no_object_are_refused(scalars: bytes) -> None:
    with pytest.raises(CodecError, match="header that"):
        codec.decode_fields(body_of(scalars, save({})))


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"clients": "0"},
        {"clients": 0},
        {"clients": "zero"},
        {"seq": 1, "clients": "0", "colour": "red"},
        {"clients": "0", "body": ""},
    ],
)
def test_a_header_without_just_its_fields_is_refused(header: dict[str, object]) -> None:
    with pytest.raises(CodecError, match="header that cannot be read"):
        codec.unframe(frame_with_header(json.dumps(header).encode()))


def test_a_scalar_that_is_not_finite_is_not_encoded() -> None:
    with pytest.raises(ValueError, match="JSON"):
        codec.encode_fields({"number": float("nan")})


@given(st.sets(st.integers(0, 60)))
def test_client_numbers_come_back_from_ranges_and_from_text(numbers: set[int]) -> None:
    clients = Clients.of(list(numbers))
    assert clients.numbers() == sorted(numbers)
    assert len(clients) == len(numbers)
    assert Clients.parse(str(clients)) == clients


def test_client_numbers_in_any_order_and_twice_make_one_set() -> None:
    assert Clients.of([7, 2, 3, 2, 1]) == Clients(((1, 4), (7, 8)))
    assert Clients.of([]) == Clients(())


def test_sets_of_clients_are_joined_and_listed_by_their_ranges() -> None:
    parts = [Clients(((5, 8), (20, 21))), Clients(((0, 5),)), Clients(()), Clients(((7, 9),))]
    joined = Clients.joined(parts)
    assert joined == Clients(((0, 9), (20, 21)))
    for clients in (*parts, joined):
        assert clients.array().tolist() == clients.numbers()


def test_a_whole_host_of_clients_is_short_in_text() -> None:
    assert str(Clients.of(list(range(10_000)))) == "0-9999"
    assert str(Clients.of([4])) == "4"
    assert str(Clients(())) == ""


@pytest.mark.parametrize("text", ["0-99999999999", "0-3,99999999999999999999"])
def test_client_numbers_beyond_any_run_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"wanted (clients below|ascending)"):
        Clients.parse(text)
