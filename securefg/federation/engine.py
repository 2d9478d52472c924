"""The contract of an engine: it carries framed messages to hosts and brings back answers or
drop-outs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from securefg.federation.evaluation import LocalScore
from securefg.privacy.ledger import Release
from securefg.protocol.codec import Body, Clients

HostId = str


@dataclass(frozen=True)
class Answer:
    """A host's framed reply, and the releases that its channel booked for it."""

    framed: Body
    releases: list[Release]


@dataclass(frozen=True)
class Dropped:
    """A set of clients that did not answer, and why, in words without any private value."""

    host: HostId
    clients: Clients
    reason: str


class Engine(ABC):
    """An engine that runs hosts. `hosts` names them and the clients that each of them runs.

    peers_may_lie  the hosts are other parties': a reply that breaks the rules is a drop-out; in an
                   engine of one's own it is a bug
    """

    hosts: Mapping[HostId, Clients]
    peers_may_lie: bool = False

    @abstractmethod
    def deliver(self, requests: Mapping[HostId, Body]) -> Mapping[HostId, Answer | Dropped]:
        """Carry each framed request to its host. Every host asked is in the result."""

    @abstractmethod
    def measure(self, release: Body, *, at_end: bool = False) -> list[LocalScore]:
        """Return every host's own scores of a released model, for the experiment alone.

        at_end  whether the model is the run's last one
        """

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Let every host write its private state into a file of its own under `folder`."""

    @abstractmethod
    def load(self, folder: Path) -> None:
        """Let every host take up its state. A host that had died before comes back as new."""

    @abstractmethod
    def close(self) -> None:
        """End everything that the engine started."""
