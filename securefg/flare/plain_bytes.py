"""Parts of a packet as one message of FLARE's, which sends them from where they lie."""

from __future__ import annotations

from nvflare.fuel.f3.cellnet.defs import Encoding
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming.stream_const import StreamHeaderKey


def plain_bytes(message: Message) -> Message:
    """The message, marked as bytes already: FLARE would encode a list of parts as an object."""
    message.set_header(StreamHeaderKey.PAYLOAD_ENCODING, Encoding.BYTES)
    return message
