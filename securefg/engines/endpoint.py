"""The endpoint: a host behind its channel. Bytes go in, sealed bytes come out, whichever engine.

A request is admitted first (`admit`): everything that can be checked without private data is, and
what the reply may release is known. Only then is it performed (`perform`): the host sees it. An
engine that keeps books writes them between the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from securefg.engines.admission import Admission, Expected
from securefg.federation.channel import Channel, mask_context
from securefg.federation.engine import Answer, HostId
from securefg.federation.evaluation import LocalScore
from securefg.federation.roles import Host
from securefg.foundation.errors import PrivacyError, ProtocolError, RunFolderError
from securefg.foundation.files import PRIVATE, write_atomically
from securefg.methods.base import AnyMethod
from securefg.privacy.ledger import Release
from securefg.protocol import codec
from securefg.protocol.arrays import write_arrays
from securefg.protocol.codec import Body, Clients, Envelope, Turn
from securefg.protocol.messages import Message
from securefg.secagg import messages as secagg_messages
from securefg.secagg.forms import STAGES
from securefg.secagg.masking_clients import MaskingClients
from securefg.secagg.ring import to_ring
from securefg.secagg.statements import request_hash


@dataclass(frozen=True)
class Admitted:
    """A request that passed every check. Nothing was computed for it.

    releases       what may leave in its reply
    is_stage       a stage of secure aggregation, made of keys: no host sees it
    is_redo        the host handles it once more, and nothing of the outcome leaves
    """

    envelope: Envelope
    turn: Turn
    message: Message
    reply: type[Message] | None = None
    releases: list[Release] = field(default_factory=list)
    is_stage: bool = False
    is_redo: bool = False


@dataclass(frozen=True)
class Endpoint:
    """A host with its name, its clients, and the only channel that its replies can take."""

    name: HostId
    clients: Clients
    method: AnyMethod
    host: Host
    channel: Channel
    admission: Admission
    attempt: int = 1
    secure: MaskingClients | None = None

    def answer(self, framed: Body) -> Answer:
        """Check a request, let the host answer it, and return the sealed reply."""
        return self.perform_admitted(self.admit(framed))

    # ------------------------------------------------------------------------- before the host

    def admit(self, framed: Body) -> Admitted:
        """Check a request completely, before any host is called, and raise an error for any
        fault."""
        envelope = codec.unframe(framed)
        if not envelope.clients.within(self.clients):
            raise ProtocolError(f"{self.name} was asked for the clients {envelope.clients}")
        turn = Turn(envelope.round, envelope.step, envelope.clients, self.attempt)
        stage = STAGES.get(envelope.kind)
        if stage is not None and self.secure is not None:
            message: Message = codec.decode(envelope.body, stage)
            return Admitted(envelope, turn, message, is_stage=True)
        is_redo = envelope.kind.startswith(secagg_messages.REDO)
        kind = envelope.kind.removeprefix(secagg_messages.REDO)
        message = codec.decode(envelope.body, self.method.message(kind))
        expected = self.admission.expect_reply(message, turn)
        opened = self._open_sums(message, turn)
        self.admission.check_fields(opened, turn)
        if is_redo:
            self._admit_redo(message, turn, expected)
            return Admitted(envelope, turn, opened, expected.reply, is_redo=True)
        self.channel.check_budget(expected.releases, turn)
        self._admit_session(message, turn, expected)
        return Admitted(envelope, turn, opened, expected.reply, expected.releases)

    def _admit_redo(self, message: Message, turn: Turn, expected: Expected) -> None:
        """Raise ProtocolError unless the repeated request was answered under masks."""
        if self.secure is None or expected.reply is None:
            raise ProtocolError(f"{message.kind}: found a request to do it again; expected none")
        self._refuse_personal(self.secure, message)
        self.secure.check_redo(request_hash(message), expected.reply.kind, turn)

    def _admit_session(self, message: Message, turn: Turn, expected: Expected) -> None:
        """Raise an error unless the request is the one that the open session was made for."""
        if self.secure is None:
            return
        self._refuse_personal(self.secure, message)
        self.secure.hold_to_constants(message, turn)
        masked = [r.mechanism.field for r in expected.releases if r.mechanism.masked]
        if not masked:
            return
        if expected.reply is None:
            raise PrivacyError(
                f"{self.method.name}.replies: found no reply to {message.kind}; expected one in a "
                "run with secure aggregation"
            )
        reply = expected.reply
        names = [full.partition(".")[2] for full in masked]
        constants = [name for name in names if self._is_constant(reply, name)]
        self.secure.check_reply(reply.kind, turn, constants)
        self.secure.check_request(request_hash(message))

    def _refuse_personal(self, secure: MaskingClients, message: Message) -> None:
        """Refuse rows for single clients, unless noise covers an upload whatever was asked."""
        if not self.channel.policy.is_steering_covered:
            secure.refuse_personal(message)

    def _is_constant(self, reply: type[Message], name: str) -> bool:
        """Return whether a field never changes and carries no noise, as `mask_context` has it."""
        masked = self.channel.policy.mask(reply, name)
        is_bare = masked is not None and masked.rule.is_bare
        return is_bare and reply.declarations[name].constant

    def _open_sums(self, request: Message, turn: Turn) -> Message:
        """Return the request, with the sums that only their recipients can read opened."""
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

    def admit_release(self, framed: Body) -> Message:
        """Return a model that is to be scored, after its checks. No host was called."""
        envelope = codec.unframe(framed)
        release = codec.decode(envelope.body, self.method.message(envelope.kind))
        self.admission.check_release(release)
        return release

    # ---------------------------------------------------------------------------- the host itself

    def perform_admitted(self, admitted: Admitted) -> Answer:
        """Let the host answer an admitted request, and seal what leaves."""
        turn, reply = admitted.turn, self._ask_host(admitted)
        checked = None if admitted.is_stage or admitted.is_redo else admitted.releases
        sealed = self.channel.seal(reply, turn, checked, admitted.message)
        self.admission.note(sealed.releases)
        envelope = replace(
            admitted.envelope, sender=self.name, receiver="server", kind=reply.kind, body=b""
        )
        enclosed = {} if self.secure is None else self.secure.enclose_keys(reply.kind)
        fields = {**sealed.fields, **codec.enclosed_names(enclosed)}
        return Answer(codec.frame_fields(envelope, fields), sealed.releases)

    def _ask_host(self, admitted: Admitted) -> Message:
        message, turn = admitted.message, admitted.turn
        if admitted.is_stage:
            assert self.secure is not None
            return self.secure.handle(message, turn)
        if admitted.reply in [census.reply for census in self.method.censuses]:
            reply = self._counted_constants(admitted)
            return secagg_messages.Redone(number=turn.round) if admitted.is_redo else reply
        reply = self.host.handle(message, turn)
        if type(reply) not in self.method.messages:  # a key message would leave without a rule
            raise ProtocolError(f"{reply.kind} is no message of {self.method.name}; nothing left")
        if admitted.reply is not None and type(reply) is not admitted.reply:
            raise ProtocolError(
                f"reply: found {reply.kind}; expected {admitted.reply.kind}; nothing was sent"
            )
        return secagg_messages.Redone(number=turn.round) if admitted.is_redo else reply

    def measure(self, framed: Body, at_end: bool) -> list[LocalScore]:
        """Check a released model and return its score on each client's own nodes."""
        return self.score(self.admit_release(framed), at_end)

    def _counted_constants(self, admitted: Admitted) -> Message:
        """Return the constants that the plan of the run has, from the host that knows them all."""
        assert admitted.reply is not None
        known = self.host.constants(self.admission.num_nodes, admitted.turn)
        planned = [r.mechanism.field.partition(".")[2] for r in admitted.releases]
        missing = sorted(set(planned) - known.keys())
        if missing:
            raise ProtocolError(
                f"{self.method.name}: constants: found no {', '.join(missing)}; expected all "
                f"fields of {admitted.reply.kind} from Host.constants; nothing was sent"
            )
        return admitted.reply.made_of({name: known[name] for name in planned})

    def score(self, release: Message, at_end: bool) -> list[LocalScore]:
        """Return an admitted model's score on each client's own nodes."""
        return self.host.measure_at_end(release) if at_end else self.host.measure(release)

    def save(self, folder: Path) -> None:
        """Write the host's private state into a file of its own."""
        state = write_arrays(self.host.state())
        write_atomically(self._state_path(folder), state, mode=PRIVATE)

    def load(self, folder: Path) -> None:
        """Take up the host's state where there is one. Raise for another host's."""
        path = self._state_path(folder)
        try:
            if path.exists():
                self.host.restore(safetensors.torch.load(path.read_bytes()))
        except (SafetensorError, KeyError, ValueError) as error:
            raise RunFolderError(f"{path}: not the state of {self.name}: {error!r}") from error

    def _state_path(self, folder: Path) -> Path:
        return folder / f"{self.name}.safetensors"
