"""What a job's processes at the server and at a site share: an end with their parent, plain bytes.

A job's process ends with the party that started it, since FLARE's own watch takes a minute or more.
Parts of a packet travel as one message of FLARE's, which sends them from where they lie.
"""

from __future__ import annotations

import os
import signal
import threading
import time

from nvflare.fuel.f3.cellnet.defs import Encoding
from nvflare.fuel.f3.message import Message
from nvflare.fuel.f3.streaming.stream_const import StreamHeaderKey

SECONDS = 1.0


def end_with_parent() -> None:
    """Kill this process when its parent ends; its work is on disk."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def plain_bytes(message: Message) -> Message:
    """Return the message, marked as bytes: FLARE would encode a list of parts as an object."""
    message.set_header(StreamHeaderKey.PAYLOAD_ENCODING, Encoding.BYTES)
    return message
