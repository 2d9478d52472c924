"""A world of real clients and a real aggregator, where clients fall silent and servers lie.

`World.exchange` stands where a federation would: it carries each stage to every host in memory.
A client in `drops` is silent from the stage of that reply on. A lie changes a request on its way to
the clients that it is told to.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from securefg.federation.roles import Replies
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, private, public
from securefg.secagg import derive, shamir
from securefg.secagg.client import SecureClients
from securefg.secagg.derive import MaskContext
from securefg.secagg.errors import SetupLost
from securefg.secagg.keys import Identity
from securefg.secagg.messages import Agreed, Keys, Ready, Revealed, Shares
from securefg.secagg.ring import Ring, RingArray
from securefg.secagg.secret import Secret
from securefg.secagg.server import Aggregator, Opened
from securefg.secagg.statements import request_hash
from securefg.settings.secagg import SecureAggregationSettings

CONFIG_HASH = "0123456789ab"


class Ask(Message, kind="session_world.Ask"):
    model: Tensor = public("global model")


class Upload(Message, kind="session_world.Upload"):
    numbers: Tensor = private("sum", "numbers", means=Other(), weight="size")
    size: Tensor = private("sum", "their weight", means=Other())


class Count(Message, kind="session_world.Count"):
    numbers: Tensor = private("sum", "another message with a field of the same name", means=Other())


STAGES: tuple[type[Message], ...] = (Keys, Shares, Ready, Upload, Agreed, Revealed)
Change = Callable[[Any], Message]


@dataclass(frozen=True)
class Lie:
    """What is told instead of a request of this kind; to all clients, or to those in `to`."""

    about: type[Message]
    change: Change
    to: frozenset[int] | None = None

    def told(self, request: Message, receivers: Sequence[int]) -> Message:
        meant = self.to is None or self.to & set(receivers)
        return self.change(request) if isinstance(request, self.about) and meant else request


def edited(message: Message, **fields: Any) -> Message:
    """The message with other fields; lists become arrays of numbers."""
    values = {k: torch.tensor(v) if isinstance(v, list) else v for k, v in fields.items()}
    return type(message)(**{**message.values(), **values})


def identity(number: int) -> Identity:
    return Identity(Secret(hashlib.sha256(f"identity {number}".encode()).digest()))


def one_each(num_clients: int) -> list[list[int]]:
    return [[number] for number in range(num_clients)]


@dataclass
class World:
    """Hosts over clients 0 … n-1, and the rows that each client would upload in plain."""

    layout: list[list[int]]
    rows: dict[str, RingArray]
    settings: SecureAggregationSettings = field(default_factory=SecureAggregationSettings)
    least_survivors: dict[str, int] = field(default_factory=dict)
    drops: dict[type[Message], set[int]] = field(default_factory=dict)
    lies: list[Lie] = field(default_factory=list)
    round: int = 0
    said: list[Message] = field(default_factory=list)
    masked: dict[int, dict[str, RingArray]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = [identity(n) for n in range(self.num_clients)]
        self.roster = [one.public for one in known]
        self.hosts = [
            SecureClients(
                self.settings,
                CONFIG_HASH,
                {n: known[n] for n in numbers},
                self.roster,
                self.least_survivors,
            )
            for numbers in self.layout
        ]
        self.aggregator = Aggregator(
            self.settings, CONFIG_HASH, self.roster, self.exchange, self.least_survivors
        )
        self.silent: set[int] = set()

    @property
    def num_clients(self) -> int:
        return sum(map(len, self.layout))

    @property
    def request(self) -> Ask:
        return Ask(model=torch.arange(4.0))

    def collect(self, reply: type[Message] = Upload) -> Opened:
        """One session; the next one is of the next round."""
        self.silent = set()
        self.round += 1
        return self.aggregator.collect(self.request, reply, None, self.round)

    def sums(self, reply: type[Message] = Upload) -> dict[str, RingArray]:
        opened = self.collect(reply)
        return {n: opened.total(n, self.context(reply, n)) for n in reply.declarations}

    def plain_sums(self, survivors: Iterable[int]) -> dict[str, RingArray]:
        chosen = sorted(survivors)
        return {n: rows[chosen].sum(0, dtype=rows.dtype) for n, rows in self.rows.items()}

    def context(self, reply: type[Message], name: str) -> MaskContext:
        rows = self.rows[name]
        apart = reply.declarations[name].scope == "recipients"
        recipients = self.num_clients if apart else 0
        bits = 8 * rows.itemsize
        return MaskContext(self.round, reply.kind, name, rows.shape[1], bits, recipients)

    def exchange(
        self, request: Message, reply: type[Message], clients: Clients | None = None
    ) -> Replies[Any]:
        asked = list(range(self.num_clients)) if clients is None else clients.numbers()
        self.silent |= self.drops.get(reply, set())
        replies, replied = [], []
        for host, numbers in enumerate(self.layout):
            own_numbers = [n for n in numbers if n in asked and n not in self.silent]
            if own_numbers:
                mine = _personal_rows(request, [asked.index(n) for n in own_numbers])
                with suppress(SetupLost):  # to an engine, a client that dropped out
                    replies.append(
                        self.answer(host, self._told(mine, own_numbers), own_numbers, reply)
                    )
                    replied += own_numbers
        order = torch.tensor(np.argsort(replied, kind="stable"))
        return Replies(_joined(replies, order) if replies else None, Clients.of(replied), ())

    def answer(
        self, host: int, request: Message, numbers: list[int], reply: type[Message] = Upload
    ) -> Message:
        """What a host says to a request, whoever sends it."""
        turn = Turn(self.round, 1, Clients.of(numbers))
        if isinstance(request, Ask):
            host_reply = self._masked_reply(host, request, numbers, reply)
        else:
            host_reply = self.hosts[host].handle(request, turn)
        self.said.append(host_reply)
        return host_reply

    def _masked_reply(
        self, host: int, request: Message, numbers: list[int], reply: type[Message]
    ) -> Message:
        self.hosts[host].check_request(request_hash(request))
        uploads = {}
        for name in reply.declarations:
            rows = self.rows[name][numbers]
            self.hosts[host].mask(rows, numbers, self.context(reply, name))
            for number, row in zip(numbers, rows, strict=True):
                self.masked.setdefault(number, {})[name] = row.copy()
            uploads[name] = torch.from_numpy(rows.view(f"<i{rows.itemsize}"))
        return reply(**uploads)

    def _told(self, request: Message, receivers: list[int]) -> Message:
        for lie in self.lies:
            request = lie.told(request, receivers)
        return request

    def lie(self, about: type[Message], change: Change, *to: int) -> None:
        self.lies.append(Lie(about, change, frozenset(to) if to else None))

    def revealed(self) -> list[Message]:
        return [message for message in self.said if isinstance(message, Revealed)]


def world(
    num_clients: int,
    *,
    dim: int = 5,
    bits: int = 32,
    layout: list[list[int]] | None = None,
    least_survivors: dict[str, int] | None = None,
    drops: dict[type[Message], set[int]] | None = None,
    **settings: Any,
) -> World:
    """Clients whose rows are uniform over the whole ring."""
    rng, ring = np.random.default_rng(num_clients), Ring(bits)
    rows = {
        "numbers": rng.integers(0, 2**bits, (num_clients, dim), np.uint64).astype(ring.dtype),
        "size": rng.integers(0, 2**bits, (num_clients, 1), np.uint64).astype(ring.dtype),
    }
    chosen = SecureAggregationSettings(ring_bits=bits, **{"malicious": False, **settings})
    return World(layout or one_each(num_clients), rows, chosen, least_survivors or {}, drops or {})


def same_sums(found: dict[str, RingArray], wanted: dict[str, RingArray]) -> bool:
    return all(np.array_equal(found[name], wanted[name]) for name in wanted)


def _personal_rows(request: Message, rows: list[int]) -> Message:
    values, declared = request.values(), request.declarations
    names = [n for n, v in values.items() if declared[n].scope == "personal" and v is not None]
    own = {name: getattr(request, name)[rows] for name in names}
    return type(request)(**{**request.values(), **own})


def _joined(replies: list[Message], order: Tensor) -> Message:
    columns = {
        name: None
        if getattr(replies[0], name) is None
        else torch.cat([getattr(reply, name) for reply in replies])[order]
        for name in replies[0].declarations
    }
    return type(replies[0])(**columns)


# ------------------------------------------------------------------------------------- what is made


@dataclass
class Made:
    """Everything secret that came into being: secrets, shares and, among the first, mask keys."""

    secrets: set[bytes] = field(default_factory=set)
    shares: set[bytes] = field(default_factory=set)

    def found_in(self, data: bytes) -> list[str]:
        """The encodings in which a secret stands in the data, however long that is."""
        hits: list[str] = []
        if len(data) < 8:
            return hits
        words = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), 8)
        heads = np.ascontiguousarray(words).view("<u8").ravel() if len(data) >= 8 else words[:0]
        for name, encoded in self._encodings().items():
            starts = np.frombuffer(b"".join(text[:8] for text in encoded), "<u8")
            suspects = np.flatnonzero(np.isin(heads, starts))
            hits += [name for at in suspects if data[at : at + len(encoded[0])] in set(encoded)]
        return hits

    def _encodings(self) -> dict[str, list[bytes]]:
        encodings = {}
        for what, values in (("secret", self.secrets), ("share", self.shares)):
            encodings[f"{what}, raw"] = list(values)
            encodings[f"{what}, hex"] = [v.hex().encode() for v in values]
            encodings[f"{what}, HEX"] = [v.hex().upper().encode() for v in values]
            encodings[f"{what}, base64"] = [base64.b64encode(v).rstrip(b"=") for v in values]
            encodings[f"{what}, base64url"] = [
                base64.urlsafe_b64encode(v).rstrip(b"=") for v in values
            ]
            encodings[f"{what}, repr"] = [repr(v)[2:34].encode() for v in values]
        return {name: texts for name, texts in encodings.items() if texts}


@contextmanager
def everything_made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """Spy on all secrets and shares, wherever they are made."""
    made, init, check = Made(), Secret.__init__, shamir.Share.__post_init__

    def made_secret(self: Secret, value: bytes) -> None:
        init(self, value)
        made.secrets.add(bytes(value))

    def made_share(self: shamir.Share) -> None:
        check(self)
        made.shares.add(self.encode())

    with monkeypatch.context() as patch:
        patch.setattr(Secret, "__init__", made_secret)
        patch.setattr(shamir.Share, "__post_init__", made_share)
        yield made


@contextmanager
def mask_keys_made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[bytes, MaskContext]]]:
    """Spy on every mask key that is derived, with what it is for."""
    made: list[tuple[bytes, MaskContext]] = []

    def spied(derived: Callable[..., Secret]) -> Callable[..., Secret]:
        def spy(*arguments: Any) -> Secret:
            key = derived(*arguments)
            made.append((key.reveal(), arguments[-1]))
            return key

        return spy

    with monkeypatch.context() as patch:
        for name in ("pair_mask_key", "self_mask_key"):
            patch.setattr(derive, name, spied(getattr(derive, name)))
        yield made
