"""FLARE's frames without its copies, of which a large payload is cut into thousands.

FLARE makes a frame by shrinking and growing a buffer, and takes the payload out of one by copying
it; with payloads of hundreds of megabytes most of the time went into memory that was fetched from
the system and given back. The bytes on the wire are the same.
"""

from __future__ import annotations

import time
from typing import Any, Final

from nvflare.fuel.f3.drivers.socket_conn import SocketConnection
from nvflare.fuel.f3.sfm.prefix import PREFIX_LEN
from nvflare.fuel.f3.sfm.sfm_conn import SfmConnection

LARGE: Final = 64 * 1024
"""Smaller frames are FLARE's own: it decodes some of them as objects, for which it wants bytes."""


def send_frame(self: Any, prefix: Any, headers: dict[str, Any] | None, payload: Any) -> None:
    """As `SfmConnection.send_frame`, with one copy."""
    start, head = bytearray(PREFIX_LEN), self.headers_to_bytes(headers) or b""
    prefix.header_len, prefix.length = len(head), PREFIX_LEN + len(head) + len(payload or b"")
    prefix.sequence = self.next_sequence()
    prefix.to_buffer(start, 0)
    frame = b"".join((start, head, payload or b""))
    with self.lock:  # frames of several threads must not interleave
        with self.send_state_lock:
            self.send_started_at = time.monotonic()
        try:
            self.conn.send_frame(frame)
        finally:
            with self.send_state_lock:
                self.send_started_at = 0.0


def install() -> None:
    """From now on this process makes and reads its frames so."""
    read = SocketConnection.read_frame

    def read_frame(self: Any) -> Any:
        frame = read(self)
        return frame if len(frame) < LARGE else memoryview(frame)

    SocketConnection.read_frame = read_frame
    SfmConnection.send_frame = send_frame
