"""The doors of each kind of process: who may ask it what. Whatever is not listed is refused.

FLARE calls a process of the network a cell: `server`, a site by its name, and for a job's own
processes `server.JOB` and `SITE.JOB`. TLS proves the neighbour's name; that a neighbour speaks for
itself, and that it may go this way, is checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

CHANNEL, ASK, PING = "securefg", "ask", "ping"  # our own: signed packets, as plain bytes
STREAM, DATA, ACK, FAULT = "sm__STREAM", "sm__DATA", "sm__ACK", "sm__ERROR"
RETURNS = "return_only"
SERVER, ADMINS = "server", "_admin_"
ADMINISTRATOR = "admin@securefg.local"  # whom an administrator's certificate must name

Door = tuple[str, str]
BYE: Door = ("cellnet.channel", "bye")
RESULT: Door = ("download_service__", "download_service__download")  # see `commands.py`


class Kind(StrEnum):
    """A kind of process in FLARE's network."""

    SERVER = "server"
    SERVER_JOB = "job at the server"
    SITE = "site"
    SITE_JOB = "job at a site"
    ADMIN = "administrator"


def kind_of(cell: str) -> Kind:
    """Return the kind of process that a cell's name stands for."""
    root, _, job = cell.partition(".")
    if root == SERVER:
        return Kind.SERVER_JOB if job else Kind.SERVER
    if root.startswith(ADMINS):
        return Kind.ADMIN
    return Kind.SITE_JOB if job else Kind.SITE


def _doors_of_channel(channel: str, *topics: str) -> frozenset[Door]:
    return frozenset((channel, topic) for topic in topics)


DOORS: Mapping[Kind, Mapping[Kind, frozenset[Door]]] = {
    Kind.SITE: {
        # Commands of the server's; which of them a site obeys is in `commands.py`.
        Kind.SERVER: _doors_of_channel("admin", "admin") | {BYE},
        Kind.SITE_JOB: _doors_of_channel("admin", "train.notify_job_status") | {BYE},
    },
    Kind.SITE_JOB: {
        Kind.SERVER_JOB: _doors_of_channel(CHANNEL, ASK, PING)
        | _doors_of_channel("aux_communication", "__end_run__"),
        Kind.SITE: _doors_of_channel("client_command", "abort") | {BYE},
        Kind.SERVER: frozenset({BYE}),
    },
    Kind.SERVER: {
        Kind.SITE: _doors_of_channel(
            "task", "challenge", "register", "heart_beat", "quit", "report_job_failure"
        )
        | {BYE},
        Kind.SITE_JOB: frozenset({BYE}),
        Kind.SERVER_JOB: _doors_of_channel(
            "server_parent_listener", "get_clients", "heartbeat", "update_run_status"
        )
        | {BYE},
        Kind.ADMIN: _doors_of_channel("task", "challenge", "register")
        | _doors_of_channel("hci_channel", "command")
        | _doors_of_channel("aux_communication", "ObjectStreamer.Request", "ObjectStreamer.Abort")
        | {RESULT, BYE},
    },
    Kind.SERVER_JOB: {
        Kind.SITE_JOB: _doors_of_channel(
            "aux_communication", "__sync_runner__", "__job_heartbeat__"
        )
        | _doors_of_channel("server_command", "get_task"),
        Kind.SERVER: _doors_of_channel("server_command", "abort", "handle_dead_job") | {BYE},
    },
    Kind.ADMIN: {
        Kind.SERVER: _doors_of_channel("hci_channel", "SESSION_EXPIRED") | {BYE},
    },
}
"""Who is asked, who asks, and the doors (channel and topic) that are open between them."""

STREAMS = {
    (Kind.SITE_JOB, Kind.SERVER_JOB),
    (Kind.SERVER_JOB, Kind.SITE_JOB),
    (Kind.SERVER_JOB, Kind.SERVER),
    (Kind.SERVER, Kind.SERVER_JOB),
    (Kind.SERVER, Kind.ADMIN),
    (Kind.ADMIN, Kind.SERVER),
}
"""Between whom requests may be cut into pieces; acknowledgements go the same ways."""


@dataclass(frozen=True)
class Arrival:
    """What a message says of itself, and from which neighbour it came. Nothing is decoded yet."""

    neighbour: str
    origin: str
    destination: str
    is_request: bool
    channel: str
    topic: str
    inner: Door = ("", "")  # of a piece of a stream: the door that the whole is for
    encoding: str = ""
    certificate: str = ""  # the name in the neighbour's certificate

    @property
    def door(self) -> Door:
        """The door that the message, or the whole stream of which it is a piece, is for."""
        own = (self.channel, self.topic)
        return self.inner if own == (STREAM, DATA) else own


def refusal_reason(me: str, arrival: Arrival) -> str | None:
    """Why this message is not taken, or None."""
    if arrival.neighbour == me:
        return None if arrival.origin == me == arrival.destination else "not of this process"
    if kind_of(arrival.neighbour) is Kind.ADMIN and arrival.certificate != ADMINISTRATOR:
        # FLARE lets any certificate of the federation call itself an administrator's session.
        return f"{arrival.neighbour} has the certificate of {arrival.certificate}"
    if not _speaks_for(me, arrival.neighbour, arrival.origin):
        return f"{arrival.neighbour} may not speak for {arrival.origin}"
    if arrival.destination != me and not _goes_through(me, arrival.origin, arrival.destination):
        return f"nothing goes from {arrival.origin} to {arrival.destination} through here"
    if not arrival.is_request:
        return None  # matched with a request of our own by its random number
    return _about_the_door(arrival)


def _speaks_for(me: str, neighbour: str, origin: str) -> bool:
    """Parties speak for their own processes; the server's passes on what its own job's says."""
    kind = kind_of(me)
    if kind is Kind.SERVER:
        return neighbour == origin or origin.startswith(f"{neighbour}.")
    if kind is Kind.SERVER_JOB:
        own = origin == SERVER or kind_of(origin) is Kind.SITE_JOB
        return (
            neighbour == SERVER and own and (origin == SERVER or _cell_job(origin) == _cell_job(me))
        )
    if kind is Kind.SITE:
        if neighbour == SERVER:
            return kind_of(origin) in (Kind.SERVER, Kind.SERVER_JOB)
        return origin == neighbour and neighbour.startswith(f"{me}.")
    if kind is Kind.SITE_JOB:
        server = origin in (SERVER, f"{SERVER}.{_cell_job(me)}")
        return (neighbour == SERVER and server) or (
            neighbour == _cell_root(me) and (origin == neighbour or server)
        )
    return neighbour == origin == SERVER


def _goes_through(me: str, origin: str, destination: str) -> bool:
    """A job's processes at the server and a site reach each other by their parents, no others."""
    ends = {kind_of(origin), kind_of(destination)}
    if kind_of(me) is Kind.SERVER:
        pair = ends == {Kind.SERVER_JOB, Kind.SITE_JOB}
        return pair and _cell_job(origin) == _cell_job(destination)
    if kind_of(me) is Kind.SITE:
        own = _cell_root(destination) == me or _cell_root(origin) == me
        return own and ends <= {Kind.SERVER, Kind.SERVER_JOB, Kind.SITE_JOB} and len(ends) == 2
    return False


def _about_the_door(arrival: Arrival) -> str | None:
    asked, asks = kind_of(arrival.destination), kind_of(arrival.origin)
    channel, topic = arrival.door
    if arrival.channel == STREAM:
        if (asked, asks) not in STREAMS:
            return f"no streams from {asks} to {asked}"
        if arrival.topic in (ACK, FAULT):
            return None
        if arrival.topic == DATA and channel == RETURNS:
            channel, _, topic = topic.partition(":")
            asked, asks = asks, asked
    open_to = DOORS.get(asked, {}).get(asks, frozenset())
    if (channel, topic) not in open_to:
        return f"no door {channel}/{topic} from {asks} to {asked}"
    if channel == CHANNEL and arrival.encoding != "bytes":
        return f"{channel}/{topic} wants plain bytes; found {arrival.encoding!r}"
    return None


def _cell_root(cell: str) -> str:
    return cell.partition(".")[0]


def _cell_job(cell: str) -> str:
    return cell.partition(".")[2]


def may_be_registered(me: str, channel: str, topic: str) -> bool:
    """Whether a handler can be reached at all; FLARE's own streams are below the doors."""
    if channel == STREAM:
        return topic in (DATA, ACK, FAULT)
    doors = frozenset().union(*DOORS.get(kind_of(me), {}).values())
    return any(channel == door[0] and topic in ("*", door[1]) for door in doors)
