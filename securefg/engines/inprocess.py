"""The default engine: every host in this process, one after the other, over the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from securefg.engines.breaches import note_failure
from securefg.engines.endpoint import Endpoint
from securefg.federation.engine import Answer, Dropped, Engine, HostId
from securefg.federation.evaluation import LocalScore
from securefg.foundation.errors import BREACHES, lacks_memory
from securefg.protocol.codec import Body


class InProcess(Engine):
    """An engine that calls every host in turn."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._endpoints = {endpoint.name: endpoint for endpoint in endpoints}
        self.hosts = {endpoint.name: endpoint.clients for endpoint in endpoints}

    def deliver(self, requests: Mapping[HostId, Body]) -> Mapping[HostId, Answer | Dropped]:
        """Carry each framed request to its host, and return the answers."""
        return {name: self._answer_frame(name, framed) for name, framed in requests.items()}

    def _answer_frame(self, name: HostId, framed: Body) -> Answer | Dropped:
        try:
            return self._endpoints[name].answer(framed)
        except BREACHES:
            raise  # A breach of the rules is a bug in the method, not a client that went away.
        except Exception as error:
            if lacks_memory(error):
                raise  # It is this machine's memory, and not one client's of many.
            return Dropped(name, self.hosts[name], note_failure(name, error))

    def measure(self, release: Body, *, at_end: bool = False) -> list[LocalScore]:
        """Return the scores of a released model on every client's own nodes."""
        return [s for e in self._endpoints.values() for s in e.measure(release, at_end)]

    def save(self, folder: Path) -> None:
        """Write every host's private state under `folder`."""
        for endpoint in self._endpoints.values():
            endpoint.save(folder)

    def load(self, folder: Path) -> None:
        """Take up every host's state from `folder`."""
        for endpoint in self._endpoints.values():
            endpoint.load(folder)

    def close(self) -> None:
        """Forget the hosts."""
        self._endpoints = {}
