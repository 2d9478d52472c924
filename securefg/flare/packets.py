"""What travels between the server and a site: a header and a blob, signed by the sender.

A signature covers (job, sender, receiver, number, header, blob). TLS tells a site that bytes came
from the server's machine; the signature tells it that they are a request of the server's, made for
this site, in this job, and not one that another site had relayed or that was made before.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from securefg.flare.certificates import Root, Signer
from securefg.foundation.errors import ProtocolError
from securefg.foundation.json_text import MOST_BYTES
from securefg.protocol.codec import Body
from securefg.secagg.encoding import Item

LENGTHS = struct.Struct(">QQQQ")
MOST_PROOF = 64 * 1024  # a certificate, a signature
REQUEST = "request"
REPLY = "reply"


@dataclass(frozen=True)
class Packet:
    """One message as FLARE carries it. A blob may be large: it is never copied here."""

    header: bytes
    blob: Body
    certificate: bytes
    signature: bytes

    def pack(self) -> list[Body]:
        """As the network carries it, to be sent one after the other: four lengths, the parts."""
        parts: list[Body] = [*vars(self).values()]
        return [LENGTHS.pack(*map(len, parts)), *parts]

    @classmethod
    def unpack(cls, content: Any) -> Packet:
        if not isinstance(content, bytes | bytearray | memoryview) or len(content) < LENGTHS.size:
            raise ProtocolError("not a packet")
        lengths = LENGTHS.unpack_from(content)
        header, _, *proof = lengths
        # A header is parsed before anybody's signature is looked at, into twenty times its size.
        if header > MOST_BYTES or max(proof) > MOST_PROOF:
            raise ProtocolError(f"a packet with a header of {header} bytes, proof of {max(proof)}")
        parts = split(lengths, memoryview(content)[LENGTHS.size :].toreadonly())
        return cls(bytes(parts[0]), parts[1], bytes(parts[2]), bytes(parts[3]))


@dataclass(frozen=True)
class Opened:
    """A packet that was found to be its sender's, for its receiver."""

    content: dict[str, Any]
    blob: Body


@dataclass(frozen=True)
class Route:
    """Between whom and in which job packets go; `number` is the exchange's."""

    job: str
    sender: str
    receiver: str
    number: int

    def back(self) -> Route:
        return Route(self.job, self.receiver, self.sender, self.number)


def seal(
    signer: Signer, purpose: str, route: Route, content: dict[str, Any], blob: Body = b""
) -> Packet:
    """Sign content and blob for this route."""
    header = json.dumps({**vars(route), "content": content}, allow_nan=False).encode()
    signature = signer.sign(purpose, *_said(route, header, blob))
    return Packet(header, blob, signer.certificate, signature)


def read_route(packet: Packet) -> Route:
    """What a packet says of its way; nothing of it is proven yet."""
    try:
        data = json.loads(packet.header)
        return Route(data["job"], data["sender"], data["receiver"], int(data["number"]))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ProtocolError(f"a packet without a route: {type(error).__name__}") from None


def open_packet(root: Root, purpose: str, wanted: Route, packet: Packet) -> Opened:
    """Raise unless the packet goes the wanted way and the sender signed all of it."""
    found = read_route(packet)
    if found != wanted:
        raise ProtocolError(f"a packet for another exchange: {found}, wanted {wanted}")
    said = _said(wanted, packet.header, packet.blob)
    root.check(wanted.sender, packet.certificate, packet.signature, purpose, *said)
    content = json.loads(packet.header).get("content")
    if not isinstance(content, dict):
        raise ProtocolError("a packet without content")
    return Opened(content, packet.blob)


def join(parts: Sequence[Body]) -> tuple[list[int], Body]:
    """Several blobs as one, and their lengths."""
    return [len(part) for part in parts], parts[0] if len(parts) == 1 else b"".join(parts)


def split(lengths: Sequence[int], blob: Body) -> list[Body]:
    """The blobs where they lie."""
    if sum(lengths) != len(blob) or any(length < 0 for length in lengths):
        raise ProtocolError(f"{len(blob)} bytes came, {sum(lengths)} were announced")
    parts: list[Body] = []
    whole, first = memoryview(blob), 0
    for length in lengths:
        parts.append(whole[first : first + length])
        first += length
    return parts


def _said(route: Route, header: bytes, blob: Body) -> tuple[Item, ...]:
    digests = (hashlib.sha256(header).digest(), hashlib.sha256(blob).digest())
    return (route.job, route.sender, route.receiver, route.number, *digests)
