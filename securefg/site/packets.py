"""Packets between the server and a site: a header and a blob, signed by the sender.

A signature covers (job, sender, receiver, number, header, blob). TLS tells a site that bytes came
from the server's machine. The signature tells it that they are a request of the server's, made for
this site, in this job, and not one that another site had relayed or that was made before.
`read_begin` and `read_control` parse the header of a request.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from securefg.foundation.errors import ProtocolError
from securefg.foundation.json_text import MOST_BYTES
from securefg.protocol.codec import Body
from securefg.secagg.encoding import Item
from securefg.site.certificates import Root, Signer

LENGTHS = struct.Struct(">QQQQ")
MOST_PROOF = 64 * 1024  # a certificate, a signature
REQUEST = "request"
REPLY = "reply"
LARGEST = 2**31
TAG = re.compile(r"round-\d{6,9}")


@dataclass(frozen=True)
class Packet:
    """A message as the network carries it. A blob may be large and is never copied here."""

    header: bytes
    blob: Body
    certificate: bytes
    signature: bytes

    def pack(self) -> list[Body]:
        """Return the pieces to send one after the other: four lengths, then the parts."""
        parts: list[Body] = [*vars(self).values()]
        return [LENGTHS.pack(*map(len, parts)), *parts]

    @classmethod
    def unpack(cls, content: Any) -> Packet:
        """Return the packet in bytes that came, or raise; the blob is not copied."""
        if not isinstance(content, bytes | bytearray | memoryview) or len(content) < LENGTHS.size:
            raise ProtocolError("not a packet")
        lengths = LENGTHS.unpack_from(content)
        header, _, *proof = lengths
        # A header is parsed before anybody's signature is looked at, into twenty times its size.
        if header > MOST_BYTES or max(proof) > MOST_PROOF:
            raise ProtocolError(f"a packet with a header of {header} bytes, proof of {max(proof)}")
        parts = split_blobs(lengths, memoryview(content)[LENGTHS.size :].toreadonly())
        return cls(bytes(parts[0]), parts[1], bytes(parts[2]), bytes(parts[3]))


@dataclass(frozen=True)
class Opened:
    """A packet whose sender and receiver were proven."""

    content: dict[str, Any]
    blob: Body


@dataclass(frozen=True)
class Route:
    """A packet's sender, receiver and job, and the number of the exchange."""

    job: str
    sender: str
    receiver: str
    number: int

    def back(self) -> Route:
        """Return the route of the reply."""
        return Route(self.job, self.receiver, self.sender, self.number)


def seal_packet(
    signer: Signer, purpose: str, route: Route, content: dict[str, Any], blob: Body = b""
) -> Packet:
    """Return a packet with content and blob, signed for this route."""
    header = json.dumps({**vars(route), "content": content}, allow_nan=False).encode()
    signature = signer.sign(purpose, *_signed_items(route, header, blob))
    return Packet(header, blob, signer.certificate, signature)


def read_route(packet: Packet) -> Route:
    """Return the route that a packet claims; nothing of it is proven yet."""
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
    signed = _signed_items(wanted, packet.header, packet.blob)
    root.check(wanted.sender, packet.certificate, packet.signature, purpose, *signed)
    content = json.loads(packet.header).get("content")
    if not isinstance(content, dict):
        raise ProtocolError("a packet without content")
    return Opened(content, packet.blob)


def join_blobs(parts: Sequence[Body]) -> tuple[list[int], Body]:
    """Return the lengths of several blobs, and the blobs as one."""
    return [len(part) for part in parts], parts[0] if len(parts) == 1 else b"".join(parts)


def split_blobs(lengths: Sequence[int], blob: Body) -> list[Body]:
    """Return the blobs that `join` put together, as views of the one."""
    if sum(lengths) != len(blob) or any(length < 0 for length in lengths):
        raise ProtocolError(f"{len(blob)} bytes came, {sum(lengths)} were announced")
    parts: list[Body] = []
    whole, first = memoryview(blob), 0
    for length in lengths:
        parts.append(whole[first : first + length])
        first += length
    return parts


@dataclass(frozen=True)
class Begin:
    """A server's request to take up the job."""

    digest: str
    attempt: int
    after_round: int


@dataclass(frozen=True)
class Control:
    """A server's request to some hosts of a site; `lengths` cuts the packet's blob between them.

    tag     the checkpoint to save or load
    at_end  whether a model that is to be scored is the run's last one
    """

    do: str
    hosts: tuple[str, ...]
    lengths: tuple[int, ...]
    tag: str
    at_end: bool


def read_begin(content: dict[str, Any]) -> Begin:
    """Return the request to take up the job. Raise unless all its parts are there."""
    digest = content.get("digest")
    numbers = [content.get(name) for name in ("attempt", "after_round")]
    if not isinstance(digest, str) or not all(_is_number(number) for number in numbers):
        raise ProtocolError("a beginning without digest, attempt and round")
    return Begin(digest, *numbers)  # type: ignore[arg-type]


def read_control(content: dict[str, Any], site: str, own_hosts: Collection[str]) -> Control:
    """Return the request. Raise unless it is for this site and names hosts of it, each once."""
    hosts, lengths = content.get("hosts"), content.get("lengths")
    if content.get("to") != site or not isinstance(hosts, list):
        raise ProtocolError(f"a request for {content.get('to')!r:.60}; here is {site}")
    if (
        not hosts
        or len(set(map(str, hosts))) != len(hosts)
        or not set(map(str, hosts)) <= set(own_hosts)
    ):
        raise ProtocolError(f"a request for {hosts!r:.100}; here is {sorted(own_hosts)}")
    if not isinstance(lengths, list) or not all(_is_number(length) for length in lengths):
        raise ProtocolError("a request without the lengths of its parts")
    if len(lengths) not in (1, len(hosts)):
        raise ProtocolError(f"{len(lengths)} parts for {len(hosts)} hosts")
    tag = content.get("tag", "")
    if not isinstance(tag, str) or (tag and not TAG.fullmatch(tag)):
        raise ProtocolError(f"no checkpoint can be called {tag!r:.60}")
    at_end = content.get("at_end", False)
    if not isinstance(at_end, bool):
        raise ProtocolError(f"at_end: found {at_end!r:.30}; expected true or false")
    return Control(str(content.get("do")), tuple(hosts), tuple(lengths), tag, at_end)


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < LARGEST


def _signed_items(route: Route, header: bytes, blob: Body) -> tuple[Item, ...]:
    digests = (hashlib.sha256(header).digest(), hashlib.sha256(blob).digest())
    return (route.job, route.sender, route.receiver, route.number, *digests)
