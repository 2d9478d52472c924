"""The endpoint: a host behind its channel. Bytes go in, sealed bytes come out, whichever engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import safetensors.torch

from securefg import codec
from securefg.channel import Channel, Turn
from securefg.codec import Clients
from securefg.engines.base import Answer, HostId
from securefg.evaluation import LocalScore
from securefg.files import write_atomically
from securefg.roles import Host, Method


@dataclass(frozen=True)
class Endpoint:
    """One host with its name, its clients, and the only channel that its replies can take."""

    name: HostId
    clients: Clients
    method: Method
    host: Host
    channel: Channel
    attempt: int = 1

    def answer(self, framed: bytes) -> Answer:
        request = codec.unframe(framed)
        message = codec.decode(request.body, self.method.message(request.kind))
        turn = Turn(request.round, request.step, request.clients, self.attempt)
        reply = self.host.handle(message, turn)
        sealed = self.channel.seal(reply, turn)
        envelope = replace(
            request, sender=self.name, receiver="server", kind=reply.kind, body=sealed.body
        )
        return Answer(codec.frame(envelope), sealed.releases)

    def measure(self, framed: bytes) -> list[LocalScore]:
        envelope = codec.unframe(framed)
        release = codec.decode(envelope.body, self.method.message(envelope.kind))
        return self.host.measure(release)

    def save(self, folder: Path) -> None:
        write_atomically(self._path(folder), safetensors.torch.save(self.host.state()))

    def load(self, folder: Path) -> None:
        if self._path(folder).exists():
            self.host.restore(safetensors.torch.load(self._path(folder).read_bytes()))

    def _path(self, folder: Path) -> Path:
        return folder / f"{self.name}.safetensors"
