"""A test whether masks hide single uploads: coin flips in a real session, guessed from all
messages.

A mask key that serves twice gives away the difference of two uploads. Here the victim flips a coin
per coordinate and everybody else sends zeros, in two sessions. The adversary subtracts from the
victim's upload every other upload (or nothing, or adds it) and reads the coins.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from audits.empirical_epsilon import EpsilonBound, gaussian_bound
from audits.uploads import Unbooked
from securefg.federation.channel import Channel
from securefg.federation.roles import Replies
from securefg.privacy.defence import Asked, find_defence
from securefg.privacy.masking_plan import MaskedField
from securefg.privacy.noise import SystemNoise
from securefg.privacy.policy import Policy
from securefg.protocol import codec
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, private, public
from securefg.secagg.forms import (
    Secure,
    SumCollector,
    make_clients,
    make_collector,
    member_keys_of,
)
from securefg.secagg.keys import Identity
from securefg.secagg.masking_clients import MaskingClients
from securefg.secagg.quantise import Grid
from securefg.secagg.ring import Ring, RingArray
from securefg.secagg.secret import SECRET_BYTES, SYSTEM_RANDOM, Secret
from securefg.secagg.server import Exchange
from securefg.secagg.statements import request_hash
from securefg.settings.privacy import NO_DEFENCE
from securefg.settings.secagg import CommitteeSettings, SecureAggregationSettings

NUM_CLIENTS = 8
COINS = 4096
VICTIM = 3


class Probe(Message, kind="mask_reuse.Probe"):
    """A request for coins."""

    number: int = public("the round")


class Coins(Message, kind="mask_reuse.Coins"):
    """A message whose masked numbers show whether masks were used twice."""

    numbers: Tensor = private(
        "sum", "coin flips of the victim, zeros of all others", means=Other("coins")
    )


class _Crossed(Exception):
    """A signal that the masked rows have crossed."""


class Sessions:
    """A set of real clients on one host, and a real aggregator that collects from them."""

    def __init__(self, settings: SecureAggregationSettings, ring: Ring) -> None:
        known = [Identity(Secret(SYSTEM_RANDOM(SECRET_BYTES))) for _ in range(NUM_CLIENTS)]
        self._clients, self._aggregator = _both_sides(settings, known, self._stop_at_uploads)
        grid = Grid(NUM_CLIENTS, 1.0, 1.0, dim=COINS, ring=ring)
        asked = Asked("Coins.numbers", NO_DEFENCE, 1.0, None, "message", "replace_one")
        rule = find_defence(NO_DEFENCE).settle(asked)
        policy = Policy(
            rules={"Coins.numbers": rule},
            delta=0.5,
            unit="client",
            budget=None,
            protects=True,
            masked={"Coins.numbers": MaskedField(rule, grid)},
        )
        self._channel = Channel(policy, SystemNoise(), Unbooked(0), self._clients)
        self._ring = ring
        self._round, self._values = 0, torch.zeros(NUM_CLIENTS, COINS)
        self._crossed: RingArray = np.zeros((0, 0), ring.dtype)

    def uploads(self, values: Tensor) -> RingArray:
        """Return the masked rows that cross in the next session."""
        self._round, self._values = self._round + 1, values
        # What comes after the masked replies opens their sum, and is no part of this game.
        with suppress(_Crossed):
            self._aggregator.collect(Probe(number=self._round), Coins, None, self._round)
        return self._crossed

    def _stop_at_uploads(self, request: Message, reply: type[Any], clients: Clients | None) -> Any:
        turn = Turn(self._round, 1, clients or Clients(((0, NUM_CLIENTS),)))
        if not isinstance(request, Probe):
            return Replies(self._clients.handle(request, turn), turn.clients, ())
        self._clients.check_reply(Coins.kind, turn, [])
        self._clients.check_request(request_hash(request))
        sealed = self._channel.seal(Coins(numbers=self._values), turn)
        arrived = codec.decode(sealed.body, Coins)
        self._crossed = arrived.numbers.numpy().view(self._ring.dtype)
        raise _Crossed


def _both_sides(
    settings: SecureAggregationSettings, known: list[Identity], exchange: Exchange
) -> tuple[MaskingClients, SumCollector]:
    """Return clients on one host and their server, in the run's form of secure aggregation."""
    roster, identities = [one.public for one in known], dict(enumerate(known))
    small = settings.model_copy(update={"committee": CommitteeSettings()})
    with TemporaryDirectory() as name:
        folder = Path(name)
        keys = member_keys_of(small, "audit", folder, identities, roster)
        secure = Secure(small, "audit", roster, keys)
        about = (small, "audit", identities, roster, keys, folder)
        clients = make_clients(*about, {}, {}, None, {})
        return clients, make_collector(secure, exchange, {}, {}, _ignore_blame, _ignore_blame)


def _ignore_blame(client: int, reason: str) -> None:
    """Blame nobody: the game ends before anybody could be."""


def audit_masks(
    settings: SecureAggregationSettings, delta: float, seed: int, confidence: float = 0.95
) -> EpsilonBound:
    """Return the privacy loss that the coins of one masked upload show. Masks promise none."""
    ring = Ring(settings.ring_bits)
    sessions, rng = Sessions(settings, ring), np.random.default_rng(seed)
    coins = rng.integers(0, 2, COINS)
    values = torch.zeros(NUM_CLIENTS, COINS)
    first = sessions.uploads(values)
    values[VICTIM] = torch.from_numpy(coins).float()
    second = sessions.uploads(values)
    others = np.concatenate([first, np.delete(second, VICTIM, axis=0)])
    return coins_bound(second[VICTIM], others, coins, delta, confidence)


def coins_bound(
    victim: RingArray,
    others: RingArray,
    coins: NDArray[np.int64],
    delta: float,
    confidence: float = 0.95,
) -> EpsilonBound:
    """Return the bound from reading the coins by the best of all references. Even coordinates
    choose the reference, and odd ones count."""
    references = np.concatenate([np.zeros_like(victim)[None], others, -others])
    guesses = (victim[None] - references) == 1
    right = (guesses[:, ::2] == (coins[::2] == 1)).sum(1)
    guess, truth = guesses[int(right.argmax())][1::2], coins[1::2] == 1
    return gaussian_bound(
        int((guess & ~truth).sum()),
        int((~truth).sum()),
        int((~guess & truth).sum()),
        int(truth.sum()),
        delta,
        confidence,
    ).cp
