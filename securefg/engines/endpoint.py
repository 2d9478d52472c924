"""The endpoint: a host behind its channel. Bytes go in, sealed bytes come out, whichever engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from securefg.federation.channel import Channel, mask_context
from securefg.federation.engine import AT_THE_END, Answer, HostId
from securefg.federation.evaluation import LocalScore
from securefg.federation.roles import Host
from securefg.foundation.errors import ProtocolError, RunFolderError
from securefg.foundation.files import write_atomically
from securefg.methods.base import AnyMethod
from securefg.protocol import codec
from securefg.protocol.codec import Body, Clients, Envelope, Turn
from securefg.protocol.messages import Message
from securefg.secagg import messages as secagg_messages
from securefg.secagg.arrays import to_ring
from securefg.secagg.client import SecureClients
from securefg.secagg.statements import request_hash

STAGES = {message.kind: message for message in secagg_messages.MESSAGES}


@dataclass(frozen=True)
class Endpoint:
    """One host with its name, its clients, and the only channel that its replies can take."""

    name: HostId
    clients: Clients
    method: AnyMethod
    host: Host
    channel: Channel
    attempt: int = 1
    secure: SecureClients | None = None

    def answer(self, framed: Body) -> Answer:
        request = codec.unframe(framed)
        if not request.clients.within(self.clients):
            raise ProtocolError(f"{self.name} was asked for the clients {request.clients}")
        turn = Turn(request.round, request.step, request.clients, self.attempt)
        reply = self._reply(request, turn)
        sealed = self.channel.seal(reply, turn)
        envelope = replace(request, sender=self.name, receiver="server", kind=reply.kind, body=b"")
        return Answer(codec.frame_fields(envelope, sealed.fields), sealed.releases)

    def _reply(self, request: Envelope, turn: Turn) -> Message:
        stage = STAGES.get(request.kind)
        if stage is not None and self.secure is not None:
            return self.secure.handle(codec.decode(request.body, stage), turn)
        redo = request.kind.startswith(secagg_messages.REDO)
        kind = request.kind.removeprefix(secagg_messages.REDO)
        message = codec.decode(request.body, self.method.message(kind))
        if self.secure is not None:
            self.secure.refuse_personal(message)
            self.secure.hold_to_constants(message, turn)
        reply = self.host.handle(self._opened(message, turn), turn)
        if type(reply) not in self.method.messages:  # a key message would leave without a rule
            raise ProtocolError(f"{reply.kind} is no message of {self.method.name}; nothing left")
        if redo:
            return secagg_messages.Redone(number=turn.round)
        if self.secure is not None and self.channel.policy.masks(type(reply)):
            self.secure.check_request(request_hash(message))
        return reply

    def _opened(self, request: Message, turn: Turn) -> Message:
        """The request, with the sums that only their recipients can read opened."""
        opened = {
            name: self._own_sums(declaration.opens, getattr(request, name), turn)
            for name, declaration in request.declarations.items()
            if declaration.opens is not None
        }
        return type(request)(**{**request.values(), **opened}) if opened else request

    def _own_sums(self, upload: str, values: Tensor, turn: Turn) -> Tensor:
        kind, _, field = upload.partition(".")
        message = next(m for m in self.method.messages if m.__name__ == kind)
        masked = self.channel.policy.mask(message, field)
        if masked is None or self.secure is None:
            raise ProtocolError(f"a sum of {upload} was passed on, which this run does not mask")
        rows = to_ring(values, masked.grid.ring)
        length = rows.shape[1] * masked.recipients
        context = mask_context(message, field, turn.round, masked, length)
        self.secure.open(rows, turn.clients.numbers(), context)
        return masked.decode(rows, values.shape)

    def measure(self, framed: Body) -> list[LocalScore]:
        envelope = codec.unframe(framed)
        release = codec.decode(envelope.body, self.method.message(envelope.kind))
        at_end = envelope.step == AT_THE_END
        return self.host.measure_at_end(release) if at_end else self.host.measure(release)

    def save(self, folder: Path) -> None:
        write_atomically(self._path(folder), safetensors.torch.save(self.host.state()))

    def load(self, folder: Path) -> None:
        path = self._path(folder)
        try:
            if path.exists():
                self.host.restore(safetensors.torch.load(path.read_bytes()))
        except (SafetensorError, KeyError, ValueError) as error:
            raise RunFolderError(f"{path}: not the state of {self.name}: {error!r}") from error

    def _path(self, folder: Path) -> Path:
        return folder / f"{self.name}.safetensors"
