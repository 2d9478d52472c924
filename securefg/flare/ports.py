"""A port for a server that starts some seconds from now, which no connection takes meanwhile."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

LEAST = 10_000  # below are ports that well-known services listen on
OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
OUTGOING_FROM = 32_768  # Linux' own default, where it does not tell


def free_port() -> int:
    """A free port of the loopback that the system gives to no outgoing connection.

    A port that the system picks itself (bind to 0) is one of those that it hands to connections:
    any process's next one may have it before the server has started, which then never listens.
    """
    above = max(_outgoing_from(), LEAST + 1)
    for _ in range(1000):
        port = LEAST + secrets.randbelow(above - LEAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise OSError(f"none of 1000 ports from {LEAST} to {above - 1} is free")


def _outgoing_from() -> int:
    try:
        return int(OUTGOING.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return OUTGOING_FROM
