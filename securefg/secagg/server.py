"""The server's side of secure aggregation: it drives the stages and gets the sum, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from securefg.foundation.errors import RoundAborted
from securefg.protocol.codec import Clients
from securefg.protocol.messages import Message
from securefg.secagg import derive, shamir
from securefg.secagg.arrays import from_bytes, to_bytes
from securefg.secagg.derive import MaskContext
from securefg.secagg.errors import BadShares, ReconstructionFailed
from securefg.secagg.graph import MaskGraph
from securefg.secagg.graph_parameters import choose, fewest
from securefg.secagg.keys import KeyPair, opens
from securefg.secagg.masks import Mask, Sign, apply_masks
from securefg.secagg.messages import (
    Advertise,
    Agreed,
    Deliver,
    Keys,
    Ready,
    Revealed,
    Roster,
    Shares,
    Survivors,
    Unmask,
)
from securefg.secagg.ring import Ring, RingArray
from securefg.secagg.secret import Secret
from securefg.secagg.statements import graph_seed, request_hash, roster_items
from securefg.settings.secagg import SecureAggregationSettings

Exchange = Callable[[Message, type[Any], Clients | None], "Any"]
"""Sends a request to clients and gathers their replies: `Federation.exchange`."""


@dataclass(frozen=True)
class Opened:
    """The reply of every survivor, still masked, and what takes the masks off their sum."""

    replies: Any
    survivors: tuple[int, ...]
    unmasking: Callable[[MaskContext], list[Mask]]

    def total(self, field: str, context: MaskContext) -> RingArray:
        """The survivors' sum in the ring: masked rows added up, then all masks taken off."""
        ring = Ring(context.modulus_bits)
        rows = getattr(self.replies.message, field).numpy().view(ring.dtype)
        total: RingArray = rows.reshape(len(rows), -1).sum(0, dtype=ring.dtype)
        apply_masks(total, self.unmasking(context))
        return total


class Aggregator:
    """Runs one session per ask."""

    def __init__(
        self,
        settings: SecureAggregationSettings,
        config_hash: str,
        identities: Sequence[bytes],
        exchange: Exchange,
        least_survivors: int = 0,
    ) -> None:
        self._settings, self._config = settings, config_hash.encode()
        self._identities, self._exchange = identities, exchange
        self._least = max(settings.min_clients, least_survivors)

    def collect(self, request: Message, reply: type[Message], clients: Clients | None) -> Opened:
        """All stages, from fresh keys to the shares that open the sum."""
        roster, graph, session = self._gather_keys(request, reply, clients)
        numbers = roster.clients.tolist()
        shares = self._step(roster, Shares, Clients.of(numbers), graph)
        sharers = shares.clients.numbers()
        ready = self._deliver(shares, sharers, numbers, graph)
        replies = self._step(request, reply, ready, graph)
        survivors = replies.clients.numbers()
        revealed = self._unmask(survivors, sharers, graph)
        secrets = _Secrets(roster, graph, session, sharers, survivors, shares, revealed)
        return Opened(replies, tuple(survivors), secrets.unmasking())

    def _gather_keys(
        self, request: Message, reply: type[Message], clients: Clients | None
    ) -> tuple[Roster, MaskGraph, bytes]:
        keys = self._exchange(Advertise(purpose=reply.kind), Keys, clients)
        self._require(keys.count, self._least, "advertised keys")
        model_hash = request_hash(request)
        roster = Roster(
            clients=torch.tensor(keys.clients.numbers()),
            mask_keys=keys.message.mask_key,
            box_keys=keys.message.box_key,
            signatures=keys.message.signature,
            model_hash=from_bytes([model_hash])[0],
        )
        known = [self._identities[n] for n in keys.clients.numbers()]
        session = derive.session_id(roster_items(known, roster), self._config, model_hash)
        parameters = choose(keys.count, self._settings.threat)
        return roster, MaskGraph.drawn(parameters, graph_seed(session, roster)), session

    def _step(
        self,
        request: Message,
        reply: type[Message],
        clients: Clients,
        graph: MaskGraph,
        last: bool = False,
    ) -> Any:
        """One exchange, after which enough clients must be left; in the last stages, when the
        replies are in, no more than the threshold."""
        replies = self._exchange(request, reply, clients)
        parameters = graph.parameters
        least = parameters.threshold if last else fewest(parameters, self._settings.threat)
        self._require(
            replies.count,
            max(least, self._settings.min_clients if last else self._least),
            f"answered {request.kind}",
        )
        return replies

    def _deliver(
        self, shares: Any, sharers: list[int], numbers: list[int], graph: MaskGraph
    ) -> Clients:
        """Carry every sealed share to its holder; the server cannot read any."""
        places = {number: place for place, number in enumerate(numbers)}
        made: Tensor = shares.message.boxes
        sealed = {
            (places[sender], receiver): (row, column)
            for row, sender in enumerate(sharers)
            for column, receiver in enumerate(graph.holders(places[sender]))
        }
        delivered = torch.zeros_like(made)
        for row, number in enumerate(sharers):
            for column, sender in enumerate(graph.holders(places[number])):
                if (sender, places[number]) in sealed:
                    delivered[row, column] = made[sealed[sender, places[number]]]
        request = Deliver(sharers=torch.tensor(sharers), boxes=delivered)
        ready: Clients = self._step(request, Ready, Clients.of(sharers), graph).clients
        return ready

    def _unmask(self, survivors: list[int], sharers: list[int], graph: MaskGraph) -> Any:
        alive, signers, signatures = Clients.of(survivors), torch.empty(0), torch.empty(0, 64)
        if self._settings.malicious:
            agreed = self._step(
                Survivors(clients=torch.tensor(survivors)), Agreed, alive, graph, last=True
            )
            signers = torch.tensor(agreed.clients.numbers())
            signatures = agreed.message.signature
            alive = agreed.clients
        request = Unmask(
            survivors=torch.tensor(survivors),
            dropped=torch.tensor(
                [n for n in sharers if n not in set(survivors)], dtype=torch.int64
            ),
            signers=signers.long(),
            signatures=signatures.to(torch.uint8),
        )
        return self._step(request, Revealed, alive, graph, last=True)

    def _require(self, count: int, least: int, what: str) -> None:
        if count < least:
            raise RoundAborted(
                f"secure aggregation: {count} clients {what}, {least} are needed; nothing was "
                "unmasked"
            )


class _Secrets:
    """What the server may rebuild: survivors' seeds and dropped clients' mask keys."""

    def __init__(
        self,
        roster: Roster,
        graph: MaskGraph,
        session: bytes,
        sharers: list[int],
        survivors: list[int],
        shares: Any,
        revealed: Any,
    ) -> None:
        numbers = roster.clients.tolist()
        self._places = {number: place for place, number in enumerate(numbers)}
        self._graph, self._session = graph, session
        self._mask_keys = to_bytes(roster.mask_keys)
        self._alive = [self._places[n] for n in survivors]
        self._dropped = sorted({self._places[n] for n in sharers} - set(self._alive))
        self._commitments = {
            self._places[n]: c
            for n, c in zip(sharers, to_bytes(shares.message.commitment), strict=True)
        }
        self._shares = self._sorted_out(revealed)

    def _sorted_out(self, revealed: Any) -> dict[int, list[shamir.Share]]:
        """Every owner's shares, as they came from the holders."""
        found: dict[int, list[shamir.Share]] = {}
        rows = revealed.message.shares.reshape(revealed.count, -1, shamir.SHARE_BYTES)
        for number, row, which in zip(
            revealed.clients.numbers(), rows, revealed.message.which.tolist(), strict=True
        ):
            holder = self._places[number]
            owners = zip(self._graph.holders(holder), to_bytes(row), which, strict=True)
            for owner, share, kind in owners:
                if kind:
                    found.setdefault(owner, []).append(shamir.Share.decode(holder + 1, share))
        return found

    def unmasking(self) -> Callable[[MaskContext], list[Mask]]:
        """The masks to put on a sum so that nothing but the sum is left, for any field."""
        seeds = {place: self._combined(place, self._seed_check(place)) for place in self._alive}
        roots = [(gone, peer, root) for gone in self._dropped for peer, root in self._roots(gone)]

        def masks(context: MaskContext) -> list[Mask]:
            own = [
                Mask(derive.self_mask_key(seed, self._session, place, context), Sign.SUBTRACT)
                for place, seed in seeds.items()
            ]
            pairs = [
                Mask(
                    derive.pair_mask_key(root, gone, peer, context),
                    Sign.of(peer, gone).opposite(),
                )
                for gone, peer, root in roots
            ]
            return own + pairs

        return masks

    def _seed_check(self, place: int) -> shamir.Check:
        return shamir.commits_to(self._commitments[place], self._session, place)

    def _roots(self, gone: int) -> list[tuple[int, Secret]]:
        pair = KeyPair(self._combined(gone, opens(self._mask_keys[gone])))
        alive = set(self._alive)
        peers = [peer for peer in self._graph.neighbours(gone) if peer in alive]
        return [(peer, pair.agree(self._mask_keys[peer], self._session)) for peer in peers]

    def _combined(self, place: int, check: shamir.Check) -> Secret:
        threshold = self._graph.parameters.threshold
        shares = self._shares.get(place, [])
        if len(shares) < threshold:
            raise RoundAborted(
                f"secure aggregation: {len(shares)} shares of one client's secret, {threshold} "
                "are needed; the sum stays masked"
            )
        try:
            return shamir.combine(shares, threshold, check)
        except (BadShares, ReconstructionFailed) as error:
            raise RoundAborted(f"secure aggregation: {error}; the sum stays masked") from error
