"""FedGL with a client that goes away in a chosen stage of secure aggregation, in one of four ways.

raise  from then on every message to it fails, as in one process; the others need real ones
kill   its process kills itself, as if the machine had lost power
hang   its process stops, as if the machine were frozen
"""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from typing import Any, Literal

from securefg.federation.roles import Site
from securefg.methods.fedgl import algorithm as fedgl
from securefg.protocol.codec import Turn
from securefg.protocol.messages import Message
from securefg.secagg.client import SecureClients

DOOMED: dict[str, Any] = {}
GONE: set[int] = set()
STAGES = ("Again", "Deliver", "Globals", "Survivors", "Unmask")


class Settings(fedgl.Settings):
    name: Literal["tests.e2e.dying"] = "tests.e2e.dying"  # type: ignore[assignment]
    client: int = 1
    stage: str = "Unmask"
    in_round: int = 2
    how: Literal["raise", "kill", "hang"] = "raise"


def strike(request: Message, turn: Turn) -> None:
    settings = DOOMED["settings"]
    if settings.client not in turn.clients.numbers():
        return
    if settings.client in GONE:
        raise RuntimeError("gone")
    if turn.round == settings.in_round and type(request).__name__ == settings.stage:
        if settings.how == "raise":
            GONE.add(settings.client)
            raise RuntimeError("gone")
        os.kill(os.getpid(), signal.SIGKILL if settings.how == "kill" else signal.SIGSTOP)


class Mortal(fedgl.Client):
    def handle(self, request: Message, turn: Turn) -> Message:
        strike(request, turn)
        return super().handle(request, turn)


def make_host(site: Site) -> fedgl.Client:
    DOOMED["settings"] = site.method
    GONE.clear()
    return Mortal(site)


_handle = SecureClients.handle


def handle(self: SecureClients, request: Message, turn: Turn) -> Message:
    if DOOMED:
        strike(request, turn)
    return _handle(self, request, turn)


SecureClients.handle = handle  # type: ignore[method-assign]
METHOD = replace(fedgl.METHOD, name="tests.e2e.dying", settings=Settings, make_host=make_host)
