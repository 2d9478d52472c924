"""FLARE's cell behind the guard: what is refused is not decoded, passed on or answered."""

from __future__ import annotations

from typing import Any

from nvflare.fuel.f3.cellnet import cell as cell_module
from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, MessageType
from nvflare.fuel.f3.drivers.driver_params import DriverParams
from nvflare.fuel.f3.streaming.stream_const import StreamHeaderKey

from securefg.flare.guard.commands import checked_handler
from securefg.flare.guard.doors import DATA, STREAM, Arrival, may_be_registered, refusal
from securefg.flare.guard.streams import entered, foreign
from securefg.flare.guard.visits import Visits

_UNTRUSTED = (
    MessageHeaderKey.CONN_URL,  # would have us connect to wherever the sender says
    MessageHeaderKey.PASS_THROUGH,
)


class GuardedCell(CoreCell):  # type: ignore[misc]
    """Stands where FLARE would use its own `CoreCell`."""

    visits: Visits

    def register_request_cb(self, channel: str, topic: str, cb: Any, *args: Any, **kw: Any) -> None:
        reachable = may_be_registered(self.my_info.fqcn, channel, topic)
        self.visits.handler(channel, topic, reachable)
        if reachable:
            checked = checked_handler(channel, topic, cb, self.visits.command)
            super().register_request_cb(channel, topic, checked, *args, **kw)

    def _process_received_msg(self, endpoint: Any, connection: Any, message: Any) -> None:
        for name in _UNTRUSTED:
            message.remove_header(name)
        arrival = _arrival(endpoint.name, _certificate(connection), message)
        reason = refusal(self.my_info.fqcn, arrival)
        if reason is not None:
            self.visits.refused(arrival, reason)
            return
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
            reason = foreign(arrival, number)
            if reason is None:
                super()._process_received_msg(endpoint, connection, message)
        else:
            with entered(arrival, number) as reason:
                if reason is None:
                    super()._process_received_msg(endpoint, connection, message)
        if reason is not None:
            self.visits.refused(arrival, reason)


def _certificate(connection: Any) -> str:
    facts = connection.get_conn_properties() if connection is not None else None
    return str((facts or {}).get(DriverParams.PEER_CN.value, ""))


def _arrival(neighbour: str, certificate: str, message: Any) -> Arrival:
    def text(key: str) -> str:
        found = message.get_header(key)
        return found if isinstance(found, str) else ""

    return Arrival(
        neighbour=neighbour,
        origin=text(MessageHeaderKey.ORIGIN),
        destination=text(MessageHeaderKey.DESTINATION),
        is_request=text(MessageHeaderKey.MSG_TYPE) not in (MessageType.REPLY, MessageType.RETURN),
        channel=text(MessageHeaderKey.CHANNEL),
        topic=text(MessageHeaderKey.TOPIC),
        inner=(text(StreamHeaderKey.CHANNEL), text(StreamHeaderKey.TOPIC)),
        encoding=text(StreamHeaderKey.PAYLOAD_ENCODING),
        certificate=certificate,
    )


def install(visits: Visits) -> None:
    """From now on every cell of this process is guarded."""
    GuardedCell.visits = visits
    cell_module.CoreCell = GuardedCell
