"""FLARE's cell behind the guard: a refused message is not decoded, passed on or answered.

FLARE cuts large messages into streams, finds a stream that it sends by its number alone, and gives
out the numbers in turn: a peer that was sent one stream can name those of others, and end them. A
stream that was begun and never finished holds a thread of the process that listens. So a peer may
speak of its own streams alone, and have a few open at once.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from nvflare.fuel.f3.cellnet import cell as cell_module
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, MessageType
from nvflare.fuel.f3.drivers.driver_params import DriverParams
from nvflare.fuel.f3.streaming.byte_receiver import RxTask
from nvflare.fuel.f3.streaming.byte_streamer import ByteStreamer
from nvflare.fuel.f3.streaming.stream_const import StreamHeaderKey

from securefg.flare.guard.commands import checked_handler
from securefg.flare.guard.doors import (
    DATA,
    FAULT,
    SERVER,
    STREAM,
    Arrival,
    may_be_registered,
    refusal_reason,
)
from securefg.flare.guard.pulse import Pulse
from securefg.flare.guard.visits import Visits

OPEN_AT_ONCE: Final = 16
"""Of 64 threads for all peers of a process; honest peers have one or two open."""

_turn = threading.Lock()
_entering: Counter[str] = Counter()


def foreign_reason(arrival: Arrival, number: Any) -> str | None:
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
def enter_piece(arrival: Arrival, number: Any) -> Iterator[str | None]:
    """Let a piece of a stream in; yields why not, where its sender has too many open."""
    origin = arrival.origin
    with _turn:
        too_many = (
            _is_new(origin, number) and _count_open(origin) + _entering[origin] >= OPEN_AT_ONCE
        )
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


def _count_open(origin: str) -> int:
    with RxTask.map_lock:
        tasks = [task for (who, _), task in RxTask.rx_task_map.items() if who == origin]
    return sum(not (task.completed or task.failed) for task in tasks)


_UNTRUSTED = (
    MessageHeaderKey.CONN_URL,  # would have us connect to wherever the sender says
    MessageHeaderKey.PASS_THROUGH,
)


class GuardedCell(CoreCell):  # type: ignore[misc]
    """Stands where FLARE would use its own `CoreCell`."""

    visits: Visits
    pulse = Pulse()

    def register_request_cb(self, channel: str, topic: str, cb: Any, *args: Any, **kw: Any) -> None:
        """Register a handler if a door leads to it, behind its checks."""
        reachable = may_be_registered(self.my_info.fqcn, channel, topic)
        self.visits.handler(channel, topic, reachable)
        if reachable:
            checked = checked_handler(channel, topic, cb, self.visits.command)
            super().register_request_cb(channel, topic, checked, *args, **kw)

    def _process_received_msg(self, endpoint: Any, connection: Any, message: Any) -> None:
        for name in _UNTRUSTED:
            message.remove_header(name)
        arrival = _make_arrival(endpoint.name, _certificate_name(connection), message)
        reason = refusal_reason(self.my_info.fqcn, arrival)
        if reason is not None:
            self.visits.refused(arrival, reason)
            return
        self.pulse.hear_site(arrival.neighbour, arrival.certificate)
        if arrival.channel != STREAM or not arrival.is_request:
            super()._process_received_msg(endpoint, connection, message)
            return
        # FLARE ends the server's job when a peer says that a message was too large.
        message.remove_header(StreamHeaderKey.ERROR_TYPE)
        if arrival.destination != self.my_info.fqcn:
            super()._process_received_msg(endpoint, connection, message)
            return
        number = message.get_header(StreamHeaderKey.STREAM_ID)
        if arrival.topic != DATA:
            reason = foreign_reason(arrival, number)
            if reason is None:
                super()._process_received_msg(endpoint, connection, message)
        else:
            with enter_piece(arrival, number) as reason:
                if reason is None:
                    super()._process_received_msg(endpoint, connection, message)
        if reason is not None:
            self.visits.refused(arrival, reason)


def _certificate_name(connection: Any) -> str:
    facts = connection.get_conn_properties() if connection is not None else None
    return str((facts or {}).get(DriverParams.PEER_CN.value, ""))


def _make_arrival(neighbour: str, certificate: str, message: Any) -> Arrival:
    def header_text(key: str) -> str:
        found = message.get_header(key)
        return found if isinstance(found, str) else ""

    return Arrival(
        neighbour=neighbour,
        origin=header_text(MessageHeaderKey.ORIGIN),
        destination=header_text(MessageHeaderKey.DESTINATION),
        is_request=header_text(MessageHeaderKey.MSG_TYPE)
        not in (MessageType.REPLY, MessageType.RETURN),
        channel=header_text(MessageHeaderKey.CHANNEL),
        topic=header_text(MessageHeaderKey.TOPIC),
        inner=(header_text(StreamHeaderKey.CHANNEL), header_text(StreamHeaderKey.TOPIC)),
        encoding=header_text(StreamHeaderKey.PAYLOAD_ENCODING),
        certificate=certificate,
    )


def install(visits: Visits, pulse: Pulse) -> None:
    """Guard every cell that this process makes from now on."""
    GuardedCell.visits, GuardedCell.pulse = visits, pulse
    cell_module.CoreCell = GuardedCell
