"""Whose a stream is, and how many a peer may have open.

FLARE cuts large messages into streams, finds a stream that it sends by its number alone, and gives
out the numbers in turn: whoever was sent one stream can name those of others, and end them. A
stream that was begun and never finished holds a thread of the process that listens.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from nvflare.fuel.f3.streaming.byte_receiver import RxTask
from nvflare.fuel.f3.streaming.byte_streamer import ByteStreamer

from securefg.flare.guard.doors import FAULT, SERVER, Arrival

OPEN_AT_ONCE: Final = 16
"""Of 64 threads for all peers of a process; honest peers have one or two open."""

_turn = threading.Lock()
_entering: Counter[str] = Counter()


def foreign(arrival: Arrival, number: Any) -> str | None:
    """Why an acknowledgement or a fault of this stream is not the sender's to tell, or None."""
    if type(number) is not int:
        return "a stream without a number"
    sent = ByteStreamer.tx_task_map.get(number)
    # The server tells its job's process that a site cannot be reached.
    may_tell = {getattr(sent, "target", None)} | ({SERVER} if arrival.topic == FAULT else set())
    if sent is not None and arrival.origin not in may_tell:
        return f"a stream of {arrival.origin} is not number {number}"
    return None


@contextmanager
def entered(arrival: Arrival, number: Any) -> Iterator[str | None]:
    """Let a piece of a stream in; yields why not, where its sender has too many open."""
    origin = arrival.origin
    with _turn:
        too_many = _is_new(origin, number) and _open(origin) + _entering[origin] >= OPEN_AT_ONCE
        if not too_many:
            _entering[origin] += 1
    try:
        yield f"{origin} has {OPEN_AT_ONCE} streams open" if too_many else None
    finally:
        if not too_many:
            with _turn:
                _entering[origin] -= 1


def _is_new(origin: str, number: Any) -> bool:
    return type(number) is not int or (origin, number) not in RxTask.rx_task_map


def _open(origin: str) -> int:
    with RxTask.map_lock:
        tasks = [task for (who, _), task in RxTask.rx_task_map.items() if who == origin]
    return sum(not (task.completed or task.failed) for task in tasks)
