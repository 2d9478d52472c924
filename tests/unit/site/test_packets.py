"""What cannot be a packet is refused before it is parsed."""

from __future__ import annotations

import pytest

from securefg.foundation.errors import ProtocolError
from securefg.foundation.json_text import MOST_BYTES
from securefg.site.packets import LENGTHS, MOST_PROOF, Packet, read_route, split_blobs


def test_a_packet_comes_back_as_it_was() -> None:
    packet = Packet(b"{}", b"blob" * 1000, b"certificate", b"signature")
    assert Packet.unpack(b"".join(packet.pack())) == packet


def test_a_blob_is_not_copied_and_cannot_be_written_to() -> None:
    came = bytearray(b"".join(Packet(b"{}", b"blob", b"certificate", b"signature").pack()))
    blob = Packet.unpack(memoryview(came)).blob
    assert isinstance(blob, memoryview)
    assert blob.obj is came
    assert blob.readonly
    parts = split_blobs([1, 3], blob)
    assert parts == [b"b", b"lob"]
    assert all(isinstance(part, memoryview) and part.obj is came for part in parts)


@pytest.mark.parametrize(
    "content",
    [
        None,
        "text",
        b"",
        b"\0" * 31,
        LENGTHS.pack(1, 0, 0, 0),
        LENGTHS.pack(2**63, 2**63, 0, 0),
        LENGTHS.pack(MOST_BYTES + 1, 0, 0, 0) + bytes(MOST_BYTES + 1),
        LENGTHS.pack(0, 0, MOST_PROOF + 1, 0) + bytes(MOST_PROOF + 1),
        LENGTHS.pack(0, 0, 0, MOST_PROOF + 1) + bytes(MOST_PROOF + 1),
    ],
    ids=["nothing", "text", "empty", "short", "torn", "wrap", "header", "certificate", "signature"],
)
def test_what_is_no_packet_is_not_taken(content: object) -> None:
    with pytest.raises(ProtocolError):
        Packet.unpack(content)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[]",
        b"[" * 10**5,
        b"\xff",
        b'{"job": 1}',
        *(
            b'{"job": "j", "sender": "s", "receiver": "r", "number": %s}' % number
            for number in (b"null", b"1e999", b"NaN", b'"' + b"9" * 10**4 + b'"', b"[]")
        ),
    ],
)
def test_a_route_that_is_none_is_a_word(header: bytes) -> None:
    with pytest.raises(ProtocolError, match="without a route"):
        read_route(Packet(header, b"", b"", b""))
