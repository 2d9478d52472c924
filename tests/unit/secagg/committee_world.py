"""Real clients, real members and a real aggregator; members fall silent and servers lie.

`CommitteeWorld.exchange` stands where a federation would. A client in `silent` does not answer. A
lie changes a request on its way to the members that it is told to, or a reply on its way back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from securefg.federation.roles import Replies
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.messages import Message
from securefg.secagg.committee.clients import CommitteeClients
from securefg.secagg.committee.sealing import MemberKey, key_statement
from securefg.secagg.committee.seating import seat_committee
from securefg.secagg.committee.server import CommitteeAggregator, OpenedByCommittee
from securefg.secagg.derive import MaskContext
from securefg.secagg.hybrid import FreshPair
from securefg.secagg.ring import Ring, RingArray
from securefg.secagg.secret import Secret
from securefg.secagg.statements import request_hash
from securefg.settings.secagg import SecureAggregationSettings
from tests.unit.secagg.session_world import CONFIG_HASH, Ask, Upload, identity

Change = Callable[[Any, list[int]], Any]


def member_secret(number: int) -> Secret:
    return Secret(hashlib.sha256(f"member {number}".encode()).digest())


def member_key(number: int, settings: SecureAggregationSettings) -> MemberKey:
    public = FreshPair(member_secret(number), settings.keys).public
    about = key_statement(CONFIG_HASH.encode(), number, public)
    return MemberKey(number, public, identity(number).sign("committee key", *about))


@dataclass
class CommitteeWorld:
    """One host per client; each client's plain rows."""

    num_clients: int
    settings: SecureAggregationSettings
    least_survivors: dict[str, int] = field(default_factory=dict)
    folder: Path | None = None
    round: int = 0
    dim: int = 5
    silent: dict[str, set[int]] = field(default_factory=dict)
    lies: dict[type[Message], Change] = field(default_factory=dict)
    replies_changed: dict[type[Message], Change] = field(default_factory=dict)
    uploads: dict[int, tuple[Message, dict[str, Tensor]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.roster = [identity(n).public for n in range(self.num_clients)]
        self.committee = seat_committee(self.settings, self.roster)
        self.keys = tuple(member_key(m, self.settings) for m in self.committee.members)
        self.hosts = [self.made(n) for n in range(self.num_clients)]
        rng, ring = np.random.default_rng(self.num_clients), Ring(self.settings.ring_bits)
        shape = (self.num_clients, self.dim)
        top = 2**self.settings.ring_bits
        self.rows = rng.integers(0, top, shape, np.uint64).astype(ring.dtype)
        self.sizes = rng.integers(0, top, (self.num_clients, 1), np.uint64).astype(ring.dtype)
        self.aggregator = self.server()

    def server(self) -> CommitteeAggregator:
        about = (self.settings, CONFIG_HASH, self.roster, self.keys, self.exchange)
        return CommitteeAggregator(*about, self.least_survivors)

    def made(self, number: int) -> CommitteeClients:
        member_secrets = {number: member_secret(number)} if number in self.committee.members else {}
        return CommitteeClients(
            self.settings,
            CONFIG_HASH,
            {number: identity(number)},
            self.roster,
            self.keys,
            member_secrets,
            self.least_survivors,
            memory_file=None if self.folder is None else self.folder / f"{number}.jsonl",
        )

    @property
    def request(self) -> Ask:
        return Ask(model=torch.arange(4.0))

    def context(self, name: str) -> MaskContext:
        length = self.dim if name == "numbers" else 1
        return MaskContext(self.round, Upload.kind, name, length, self.settings.ring_bits)

    def collect(self) -> OpenedByCommittee:
        self.round += 1
        return self.aggregator.collect(self.request, Upload, None, self.round)

    def total(self) -> RingArray:
        opened = self.collect()
        opened.total("size", self.context("size"))
        return opened.total("numbers", self.context("numbers"))

    def plain(self, clients: list[int]) -> RingArray:
        total: RingArray = self.rows[clients].sum(0, dtype=self.rows.dtype)
        return total

    def exchange(
        self, request: Message, reply: type[Message], clients: Clients | None = None
    ) -> Replies[Any]:
        asked = range(self.num_clients) if clients is None else clients.numbers()
        alive = [n for n in asked if n not in self.silent.get(request.kind, set())]
        answers, enclosed = [], []
        for n in alive:
            own = _own_row(request, list(asked).index(n))
            change = self.lies.get(type(request))
            answers.append(self.answer(n, own if change is None else change(own, [n])))
            enclosed.append(self.hosts[n].enclose_keys(reply.kind))
            back = self.replies_changed.get(reply)
            if back is not None:
                answers[-1] = back(answers[-1], [n])
            if isinstance(request, Ask):
                self.uploads[n] = (answers[-1], enclosed[-1])
        return Replies(
            _joined(answers) if answers else None,
            Clients.of(alive),
            (),
            enclosed={k: torch.cat([e[k] for e in enclosed]) for k in (enclosed or [{}])[0]},
        )

    def answer(self, number: int, request: Message) -> Message:
        turn, host = Turn(self.round, 1, Clients.of([number])), self.hosts[number]
        if not isinstance(request, Ask):
            return host.handle(request, turn)
        host.check_reply(Upload.kind, turn, [])
        host.check_request(request_hash(request))
        masked = {}
        for name, rows in (("numbers", self.rows), ("size", self.sizes)):
            own = rows[[number]].copy()
            host.mask(own, [number], self.context(name))
            masked[name] = torch.from_numpy(own.view(f"<i{own.itemsize}"))
        return Upload(**masked)


def committee_world(num_clients: int, **settings: Any) -> CommitteeWorld:
    own = {n: settings.pop(n) for n in ("least_survivors", "folder") if n in settings}
    whole = {"form": "committee", "corrupt": 0, **settings}
    return CommitteeWorld(num_clients, SecureAggregationSettings.model_validate(whole), **own)


def _own_row(request: Message, row: int) -> Message:
    values = {
        name: value[row : row + 1]
        if request.declarations[name].scope == "personal" and value is not None
        else value
        for name, value in request.values().items()
    }
    return type(request)(**values)


def _joined(replies: list[Message]) -> Message:
    names = replies[0].declarations
    return type(replies[0])(**{n: torch.cat([getattr(r, n) for r in replies]) for n in names})
