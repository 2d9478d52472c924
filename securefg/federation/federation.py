"""The federation: the cohort over an engine, with everything that crosses recorded and counted.

Recording sits here, between the server and the engine, so that no method can forget it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from securefg.federation.census import Censuses
from securefg.federation.channel import check_budget, mask_context
from securefg.federation.engine import Answer, Dropped, Engine, HostId
from securefg.federation.journal import Entry, Journal, entry_digest, without_rows
from securefg.federation.peers import check_claims, check_finite, due_releases, odd_ones
from securefg.federation.recorder import BLAMED, SUSPECTED, Recorder, Traffic
from securefg.federation.roles import Cohort, Replies
from securefg.foundation.errors import Diverged, ProtocolError, RoundAborted
from securefg.privacy.ledger import Ledger, Mechanism, Release
from securefg.privacy.policy import Policy
from securefg.protocol import codec
from securefg.protocol.arrays import Stored, all_finite, concatenate_arrays
from securefg.protocol.codec import Clients, Envelope, Turn
from securefg.protocol.messages import Message, Value
from securefg.protocol.transcript import TranscriptWriter
from securefg.secagg.forms import OpenedSums, Secure, SumCollector, make_collector
from securefg.secagg.messages import REDO, Redone
from securefg.secagg.ring import from_ring
from securefg.secagg.statements import request_hash

M = TypeVar("M", bound=Message)
UPLOAD_STEP = 4
"""Of a masked session: keys, roster, shares come before; seeded noise is drawn by the step."""


class Federation(Cohort):
    """A federation that asks hosts through the engine, records both ways, and books what was
    released.

    keep_body  whether a round's bodies stay in the transcript
    blamed     clients that broke sessions before a restart, and are asked no more
    suspected  how often clients kept a key closed in a dispute before a restart
    """

    def __init__(
        self,
        engine: Engine,
        policy: Policy,
        ledger: Ledger,
        transcript: TranscriptWriter,
        keep_body: Callable[[int], bool] = lambda round: True,
        attempt: int = 1,
        secure: Secure | None = None,
        journal: Journal | None = None,
        blamed: Mapping[int, str] | None = None,
        suspected: Mapping[int, int] | None = None,
    ) -> None:
        self._journal = journal or Journal()
        self._aggregator: SumCollector | None = None
        self._committee_words = None if secure is None else secure.committee_words()
        self._has_enclosures = secure is not None and secure.has_enclosures
        if secure is not None:
            self._aggregator = make_collector(
                secure,
                self.exchange,
                policy.least_survivors,
                policy.cohorts,
                self._blame_client,
                self._suspect_client,
            )
            self._aggregator.blamed.update(blamed or {})
            self._aggregator.silences.update(suspected or {})
        numbers = np.concatenate([clients.array() for clients in engine.hosts.values()])
        if not np.array_equal(numbers, np.arange(len(numbers))):
            raise ProtocolError("hosts must hold the clients 0, 1, 2, … in ascending order")
        self.num_clients = len(numbers)
        self._recorder = Recorder(transcript, keep_body, attempt)
        self._attempt = attempt
        self._engine = engine
        self._policy = policy
        self._ledger = ledger
        self._round = 0
        self._step = 0
        self._masked_asks = 0
        self._session_start = 0
        self._sent_at: dict[type[Message], int] = {}
        self._planned: dict[type[Message], list[Mechanism]] = {}
        self.censuses = Censuses(policy, self._ask_plainly)

    @property
    def traffic(self) -> Traffic:
        """Return the bytes and drop-outs so far."""
        return self._recorder.traffic

    def take_up(self, traffic: Traffic) -> None:
        """Count on from where a checkpoint stands."""
        self._recorder.traffic = traffic

    def begin_round(self, number: int) -> None:
        """Count steps and masked asks anew."""
        self._round, self._step, self._masked_asks = number, 0, 0

    def ask(self, request: Message, reply: type[M], clients: Clients | None = None) -> Replies[M]:
        """Ask, through masks where the policy has them, and count constants once where it must."""
        if not self._policy.exact.counted:
            return self._ask_plainly(request, reply, clients)
        return self.censuses.ask(request, reply, clients, self._round)

    def _ask_plainly(self, request: Message, reply: type[M], clients: Clients | None) -> Replies[M]:
        if self._policy.masks(reply):
            return self._ask_masked(request, reply, clients)
        return self.exchange(request, reply, clients)

    def noise_stddev(self, replies: Replies[M], field: str) -> float:
        """Return standard deviation of the noise on every number of a sum."""
        if replies.message is None:
            return 0.0
        rule = self._policy.rule(type(replies.message), field)
        shape = getattr(replies.message, field).shape[1:]
        return math.sqrt(replies.count) * rule.stddev(shape)

    def exchange(
        self, request: Message, reply: type[M], clients: Clients | None = None
    ) -> Replies[M]:
        """Send one request and return one reply from each client. Masked fields stay masked."""
        return self._exchange_frames(request, reply, clients)

    def _exchange_frames(
        self, request: Message, reply: type[M], clients: Clients | None, prefix: str = ""
    ) -> Replies[M]:
        self._step += 1
        if self._policy.masks(reply):  # at one step, whether or not keys were agreed on before it
            self._step = max(self._step, self._session_start + UPLOAD_STEP)
        self._sent_at[type(request)] = self._step
        asked = self._hosts_of(clients)
        everybody = Clients.joined(asked.values())
        check_budget(self._policy, self._ledger, everybody, self._planned.get(reply, []))
        answers = self._engine.deliver(self._frame_request(request, asked, prefix))
        return self._receive_replies(reply, asked, answers)

    def _ask_masked(self, request: Message, reply: type[M], clients: Clients | None) -> Replies[M]:
        """Run one session of secure aggregation around the ask. Masked fields give only their
        sums."""
        assert self._aggregator is not None
        self._masked_asks += 1
        self._session_start = self._step
        digest = request_hash(request).hex()
        before = self._journal.find(self._round, self._masked_asks)
        if before is not None:
            return self._taken_up(request, reply, digest, before)
        note = partial(Entry, reply.kind, digest)
        try:
            opened = self._aggregator.collect(request, reply, clients, self._round)
            replies: Replies[M] = opened.replies
            sums, aborted = self._opened_sums(reply, replies, opened)
            assert replies.message is not None
            fields = without_rows(replies.message, self._policy.masks(reply))
            entry = note(self._sent_at[type(request)], self._step, replies.clients, fields, sums)
            if aborted is not None:
                entry = note(0, self._step, Clients(()), {}, {}, str(aborted))
            # What the server learnt is on record, used or not, before the note that keeps it from
            # being asked again.
            digest = entry_digest(self._round, self._masked_asks, entry)
            about = (reply.kind, replies.clients, sums, self._round, self._step)
            self._recorder.opened(*about, digest)
            if aborted is not None:
                raise aborted
        except RoundAborted as error:
            entry = note(0, self._step, Clients(()), {}, {}, str(error))
            digest = entry_digest(self._round, self._masked_asks, entry)
            self._recorder.aborted(self._round, self._step, digest)
            self._note_outcome(entry)
            raise
        self._note_outcome(entry)
        return replace(replies, sums=sums)

    def _note_outcome(self, entry: Entry) -> None:
        self._journal.write(self._round, self._masked_asks, entry)

    def _taken_up(self, request: Message, reply: type[M], digest: str, before: Entry) -> Replies[M]:
        """Return the outcome of a session that ended before a crash, which is not held again. The
        hosts handle the request once more and keep what they make of it to themselves."""
        if before.aborted or (before.kind, before.request) != (reply.kind, digest):
            raise RoundAborted(before.aborted or "the sum that was opened is of another request")
        self._step = before.step - 1
        self._exchange_frames(request, Redone, before.clients, REDO)
        self._step = before.last
        message = reply.made_of(before.fields)
        return Replies(message, before.clients, (), before.sums)

    def _opened_sums(
        self, reply: type[M], replies: Replies[M], opened: OpenedSums
    ) -> tuple[dict[str, Tensor], RoundAborted | None]:
        """Return the sums, and why they are of no use where one passes what honest clients can
        send."""
        sums: dict[str, Tensor] = {}
        aborted = None
        for name in self._policy.masks(reply):
            values, masked = getattr(replies.message, name), self._policy.mask(reply, name)
            if values is not None and masked is not None:
                if replies.count > masked.grid.num_clients:
                    raise ProtocolError(
                        f"{reply.kind}.{name}: {replies.count} clients in a sum that was planned "
                        f"for {masked.grid.num_clients}; it could have overflowed"
                    )
                context = mask_context(reply, name, self._round, masked, values[0].numel())
                total = opened.total(name, context)
                if masked.recipients:
                    sums[name] = from_ring(total).reshape(values.shape[1:])
                else:
                    sums[name] = masked.decode(total, values.shape[1:])
                    try:
                        masked.require_bound(total, replies.count, f"{reply.kind}.{name}")
                    except RoundAborted as error:
                        aborted = error
        return sums, aborted

    @property
    def committee_words(self) -> str | None:
        """What the committee that opens sums protects from, or None without a committee."""
        return self._committee_words

    @property
    def blamed(self) -> dict[int, str]:
        """Return clients that sent what breaks a session, and what it was."""
        return {} if self._aggregator is None else self._aggregator.blamed

    def _blame_client(self, client: int, reason: str) -> None:
        self._record_word(client, BLAMED + reason)

    def _suspect_client(self, client: int, reason: str) -> None:
        self._record_word(client, SUSPECTED + reason)

    def _record_word(self, client: int, note: str) -> None:
        host = next(name for name, own in self._engine.hosts.items() if client in own.numbers())
        drop = Dropped(host, Clients.of([client]), note)
        self._recorder.dropped(drop, self._round, self._step)

    def _hosts_of(self, clients: Clients | None) -> dict[HostId, Clients]:
        if clients is None or clients.ranges == ((0, self.num_clients),):
            return dict(self._engine.hosts)
        wanted = clients.array()
        if wanted.size and not 0 <= wanted.min() <= wanted.max() < self.num_clients:
            raise ProtocolError(f"clients {clients} were asked; there are {self.num_clients}")
        chosen = {
            name: Clients.of(np.intersect1d(wanted, own.array(), assume_unique=True))
            for name, own in self._engine.hosts.items()
        }
        return {name: own for name, own in chosen.items() if len(own)}

    def _frame_request(
        self, request: Message, asked: Mapping[HostId, Clients], prefix: str
    ) -> dict[HostId, bytes]:
        """Frame the request for every host: the body once for all, or a host's own rows of it."""
        personal = [
            name
            for name, declaration in request.declarations.items()
            if declaration.scope == "personal" and getattr(request, name) is not None
        ]
        _refuse_diverged(request, self._round)
        rows_of_each = {name: getattr(request, name) for name in personal}
        _check_rows(request.kind, rows_of_each, sum(len(clients) for clients in asked.values()))
        if any(d.is_private for d in request.declarations.values()):
            raise ProtocolError(f"{request.kind} goes to clients and must have no private field")
        shared = None if personal else codec.encode(request)
        framed, first = {}, 0
        for name, clients in asked.items():
            rows = slice(first, first + len(clients))
            body = shared or codec.encode_fields(_host_rows(request, personal, rows))
            first += len(clients)
            envelope = self._make_envelope(name, prefix + request.kind, clients, body)
            framed[name] = codec.frame(envelope)
            if shared is None:
                self._recorder.sent(envelope, {name: framed[name]}, tuple(personal))
        if shared is not None and asked:
            everybody = Clients.joined(asked.values())
            kind = prefix + request.kind
            self._recorder.sent(self._make_envelope("", kind, everybody, shared), framed)
        return framed

    def _make_envelope(self, receiver: str, kind: str, clients: Clients, body: bytes) -> Envelope:
        seq = self._recorder.next_seq()
        return Envelope(seq, self._round, self._step, "server", receiver, kind, clients, body)

    def _receive_replies(
        self,
        reply: type[M],
        asked: Mapping[HostId, Clients],
        answers: Mapping[HostId, Answer | Dropped],
    ) -> Replies[M]:
        came = {name: answer for name, answer in answers.items() if isinstance(answer, Answer)}
        if not self._engine.peers_may_lie:
            # What was delivered is on the books before anything of it can be refused or used.
            self._book_releases(reply, [answer.releases for answer in came.values()])
        read: dict[HostId, tuple[Envelope, dict[str, Any]]] = {}
        dropped = {n: answer for n, answer in answers.items() if isinstance(answer, Dropped)}
        for name, answer in came.items():
            try:
                read[name] = self._read_reply(reply, name, asked[name], answer)
            except ProtocolError as error:
                dropped[name] = self._nonsense_dropout(name, asked[name], error)
        if not self._engine.peers_may_lie:
            for name, (_, fields) in read.items():
                self._require_finite(reply, fields, asked[name])
        if self._engine.peers_may_lie:
            for name, reason in self._false_claims(reply, asked, came, read).items():
                del read[name]
                dropped[name] = self._nonsense_dropout(name, asked[name], ProtocolError(reason))
        for name, clients in asked.items():
            if name in dropped:
                dropped[name] = replace(dropped[name], clients=clients)
                self._recorder.dropped(dropped[name], self._round, self._step)
            else:
                self._recorder.received(reply, read[name][0], came[name])
        replied = [clients for name, clients in asked.items() if name in read]
        messages = [read[name][1] for name in asked if name in read]
        together = _concatenate_messages(reply, messages) if messages else None
        lost = tuple(dropped[name] for name in asked if name in dropped)
        enclosed = self._enclosed_rows(reply, [read[name][0] for name in asked if name in read])
        return Replies(together, Clients.joined(replied), lost, enclosed=enclosed)

    def _read_reply(
        self, reply: type[Message], name: HostId, clients: Clients, answer: Answer
    ) -> tuple[Envelope, dict[str, Any]]:
        """Return a reply's envelope and fields. Raise `ProtocolError` if it breaks the rules."""
        envelope = codec.unframe(answer.framed)
        self._check_reply(envelope, name, clients, reply)
        fields = codec.read(envelope.body, reply, has_enclosures=self._masks_enclose(reply))
        arrays = {field: x for field, x in fields.items() if isinstance(x, Stored)}
        beside = codec.read_enclosed(envelope.body) if self._masks_enclose(reply) else {}
        _check_rows(reply.kind, {**arrays, **beside}, len(clients))
        return envelope, fields

    def _masks_enclose(self, reply: type[Message]) -> bool:
        """Return whether key material may travel beside this reply."""
        return self._has_enclosures and bool(self._policy.masks(reply))

    def _enclosed_rows(
        self, reply: type[Message], envelopes: Sequence[Envelope]
    ) -> dict[str, Tensor]:
        """Return what came beside masked replies, the rows of all hosts in a row."""
        if not self._masks_enclose(reply):
            return {}
        parts = [codec.read_enclosed(envelope.body) for envelope in envelopes]
        names = {name for part in parts for name in part}
        kinds = [{(n, x.shape[1:], x.dtype) for n, x in part.items()} for part in parts]
        if any(kind != kinds[0] for kind in kinds):
            raise ProtocolError(f"{reply.kind}: clients sent boxes of different kinds beside it")
        return {name: concatenate_arrays([part[name] for part in parts]) for name in sorted(names)}

    def _require_finite(
        self, reply: type[Message], fields: Mapping[str, Any], clients: Clients
    ) -> None:
        """End the run where an upload diverged that came as it was. It was sent and booked, and the
        server reads all of it, so the error tells nothing beside it. Under noise or masks the
        channel sent 0 instead, and nobody is told."""
        for name, value in fields.items():
            if not isinstance(value, Stored) or not reply.declarations[name].is_private:
                continue
            if self._policy.mask(reply, name) is None and not all_finite(value):
                finite = value.tensor().isfinite().flatten(1).all(1)
                client = clients.numbers()[int((~finite).nonzero()[0])]
                raise Diverged.at(self._round, f"client {client}'s {reply.kind}.{name}")

    def _false_claims(
        self,
        reply: type[Message],
        asked: Mapping[HostId, Clients],
        came: Mapping[HostId, Answer],
        read: Mapping[HostId, tuple[Envelope, dict[str, Any]]],
    ) -> dict[HostId, str]:
        """Book what was read, whatever is claimed of it. Return whose claims are false, and why."""
        booked = {
            name: due_releases(
                self._policy,
                reply,
                fields,
                Turn(self._round, self._step, asked[name], self._attempt),
            )
            for name, (_, fields) in read.items()
        }
        self._book_releases(reply, list(booked.values()))
        reasons = {}
        for name, (_, fields) in read.items():
            try:
                check_claims(came[name].releases, booked[name])
                check_finite(reply, fields)
            except ProtocolError as error:
                reasons[name] = str(error)
        whole = {name: fields for name, (_, fields) in read.items() if name not in reasons}
        return {**reasons, **odd_ones(whole)}

    def _nonsense_dropout(self, name: HostId, clients: Clients, error: ProtocolError) -> Dropped:
        if not self._engine.peers_may_lie:
            raise error
        return Dropped(name, clients, f"{name} sent nonsense: {error}")

    def _check_reply(
        self, envelope: Envelope, name: HostId, clients: Clients, reply: type[Message]
    ) -> None:
        found = (envelope.sender, envelope.kind, envelope.round, envelope.step, envelope.clients)
        wanted = (name, reply.kind, self._round, self._step, clients)
        if found != wanted:
            raise ProtocolError(f"a reply that was not asked for: {found}, wanted {wanted}")

    def _book_releases(self, reply: type[Message], of_hosts: Sequence[list[Release]]) -> None:
        """Book all hosts' releases at once, since every booking waits for the disk."""
        for releases in of_hosts:
            self._planned[reply] = [release.mechanism for release in releases]
        self._ledger.record([release for releases in of_hosts for release in releases])


def _refuse_diverged(request: Message, round: int) -> None:
    """End the run where the server's own numbers diverged: clients would refuse them."""
    for name, value in request.values().items():
        if isinstance(value, Tensor) and not all_finite(value):
            raise Diverged.at(round, f"the server's {request.kind}.{name}")


def _check_rows(kind: str, arrays: Mapping[str, Tensor | Stored], wanted: int) -> None:
    """Raise ProtocolError unless the first axis is the client. A row too many would weigh more than
    its client may."""
    for name, array in arrays.items():
        if array.shape[:1] != (wanted,):
            raise ProtocolError(
                f"{kind}.{name}: {list(array.shape)}, wanted {wanted} rows, one per client"
            )


def _host_rows(request: Message, personal: list[str], rows: slice) -> dict[str, Value]:
    return request.values() | {name: getattr(request, name)[rows] for name in personal}


def _concatenate_messages(reply: type[M], messages: list[dict[str, Any]]) -> M:
    """Return one message with every client's rows. A scalar must be the same in all."""
    joined = {}
    for name in reply.declarations:
        values = [message[name] for message in messages]
        if all(isinstance(value, Stored) for value in values):
            if len({(value.shape[1:], value.dtype) for value in values}) > 1:
                raise ProtocolError(f"{reply.kind}.{name}: clients sent arrays of different kinds")
            joined[name] = concatenate_arrays(values)
        elif any(isinstance(value, Stored) for value in values):
            raise ProtocolError(f"{reply.kind}.{name}: only some clients sent it")
        elif all(value == values[0] for value in values):
            joined[name] = values[0]
        else:
            raise ProtocolError(f"{reply.kind}.{name}: the clients do not agree on it")
    return reply(**joined)
