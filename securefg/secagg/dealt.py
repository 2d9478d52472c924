"""The shares of a session at the server: sealed on their way, and revealed at the end.

`Dealt` passes sealed boxes on and counts those that their holders found bad. `Secrets` rebuilds
survivors' seeds and dropped clients' drop keys. It checks every share against the digest that its
owner dealt it with, so that a wrong share names its sender. Good shares that do not combine name
their owner.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from securefg.foundation.errors import RoundAborted
from securefg.secagg import derive, shamir
from securefg.secagg.derive import MaskContext
from securefg.secagg.errors import BadShares, ReconstructionFailed
from securefg.secagg.graph import MaskGraph
from securefg.secagg.links import box_partners
from securefg.secagg.masks import Mask, Sign
from securefg.secagg.messages import Deliver, Roster
from securefg.secagg.ring import to_bytes
from securefg.secagg.secret import SECRET_BYTES, Secret
from securefg.secagg.session import KEY, NO_TAG, SEED, SignedPairs

_Near = Mapping[int, Sequence[int]]
_ROWS = ("boxes", "share_digests", "box_ciphertexts", "mask_ciphertexts")


class Dealt:
    """What the sharers of a session dealt.

    numbers  everybody in the session, in the order of their places
    sharers  those of them whose shares count
    """

    def __init__(
        self, shares: Any, numbers: list[int], graph: MaskGraph, with_pads: bool = False
    ) -> None:
        self.sharers: list[int] = shares.clients.numbers()
        self._graph, self._numbers, self._with_pads = graph, numbers, with_pads
        self._places = {number: place for place, number in enumerate(numbers)}
        self._row = {self._places[n]: row for row, n in enumerate(self.sharers)}
        self._columns: dict[int, dict[int, int]] = {}
        self._boxes: Tensor = shares.message.boxes
        self._digests: Tensor = shares.message.share_digests
        self._said: NDArray[np.uint8] = self._digests.numpy()
        self._commitments: Tensor = shares.message.commitment
        self._box_ciphertexts: Tensor | None = shares.message.box_ciphertexts
        self._mask_ciphertexts: Tensor | None = shares.message.mask_ciphertexts
        self._delivered: Deliver | None = None
        self._wrapped: dict[int, list[bytes]] = {}
        self.pairs: dict[int, SignedPairs] = {}
        self._bad: set[tuple[int, int]] = set()
        if shares.message.wrapped is not None:
            self._keep_wrapped(self.sharers, shares.message.wrapped)

    def _keep_wrapped(self, numbers: Sequence[int], rows: Tensor) -> None:
        for number, wrapped in zip(numbers, rows, strict=True):
            self._wrapped[self._places[number]] = to_bytes(wrapped)

    def note_pairs(self, ready: Any) -> None:
        """Keep the roots and tags that came with the first answer to a delivery, signed."""
        if ready.message.wrapped is None:
            return
        numbers = ready.clients.numbers()
        self._keep_wrapped(numbers, ready.message.wrapped)
        for number, signature in zip(numbers, to_bytes(ready.message.signature), strict=True):
            place = self._places[number]
            self.pairs[number] = SignedPairs(
                self._wrapped[place],
                self._sent_ciphertexts(place),
                self._received_ciphertexts(place),
                signature,
            )

    def without_roots(self) -> list[int]:
        """Sharers that gave no roots of their masks: if one drops out, nobody could open them."""
        return [n for n in self.sharers if self._places[n] not in self._wrapped]

    def _sent_ciphertexts(self, place: int) -> list[bytes]:
        """The mask ciphertexts of the client at a place."""
        rows = self._mask_ciphertexts
        return [] if rows is None else to_bytes(rows[self._row[place]])

    def _received_ciphertexts(self, place: int) -> list[bytes]:
        """The mask ciphertexts that were delivered to the client at a place."""
        rows = None if self._delivered is None else self._delivered.mask_ciphertexts
        return [] if rows is None else to_bytes(rows[self._row[place]])

    def leave_out(self, clients: Collection[int]) -> None:
        """Take clients out of those whose shares count."""
        self.sharers = [n for n in self.sharers if n not in clients]

    def make_delivery(self) -> Deliver:
        """Every box to its holder, with what its sender said of it; later on, only the sharers."""
        sharers = torch.tensor(self.sharers)
        if self._delivered is not None:
            return Deliver(sharers=sharers, **dict.fromkeys(_ROWS))
        graph, places = self._graph, [self._places[n] for n in self.sharers]
        holders = {place: graph.holders(place) for place in places}
        partners = {p: box_partners(graph, p, self._with_pads) for p in places}
        ahead, behind = (
            {p: way(p) for p in places} for way in (graph.neighbours_ahead, graph.neighbours_behind)
        )
        self._delivered = Deliver(
            sharers=sharers,
            boxes=self._turn_rows(self._boxes, holders, holders),
            share_digests=self._turn_rows(self._digests, holders, holders),
            box_ciphertexts=self._turn_rows(self._box_ciphertexts, partners, partners),
            mask_ciphertexts=self._turn_rows(self._mask_ciphertexts, ahead, behind),
        )
        return self._delivered

    def _turn_rows(self, sent: Tensor | None, ahead: _Near, behind: _Near) -> Tensor | None:
        """What clients sent to those ahead, as it is received by those behind whom they are; zeros
        from a client that sent nothing."""
        if sent is None:
            return None
        source = sent.numpy()
        turned = np.zeros((len(self.sharers), *source.shape[1:]), np.uint8)
        columns = {p: {peer: at for at, peer in enumerate(near)} for p, near in ahead.items()}
        for row, number in enumerate(self.sharers):
            place = self._places[number]
            near = [(at, sender) for at, sender in enumerate(behind[place]) if sender in ahead]
            at = [self._row[s] for _, s in near], [columns[s][place] for _, s in near]
            turned[row, [column for column, _ in near]] = source[at]
        return torch.from_numpy(turned)

    def _holder_column(self, sender: int, holder: int) -> int:
        if sender not in self._columns:
            holders = self._graph.holders(sender)
            self._columns[sender] = {place: column for column, place in enumerate(holders)}
        return self._columns[sender][holder]

    def box_digest(self, owner: int, holder: int) -> bytes:
        """What the client at place `owner` said that it sealed for the one at `holder`."""
        row: NDArray[np.uint8] = self._said[self._row[owner], self._holder_column(owner, holder)]
        return row.tobytes()

    def commitment(self, owner: int) -> bytes:
        """Return the commitment to the seed of the client at place `owner`."""
        return to_bytes(self._commitments[self._row[owner]][None])[0]

    def wrapped(self, owner: int, peer: int) -> tuple[bytes, bytes]:
        """The root of a pair's masks under the owner's drop key, and the tag that it gave."""
        row = self._wrapped[owner][self._holder_column(owner, peer)]
        return row[:SECRET_BYTES], row[SECRET_BYTES:]

    def at_odds(self) -> list[tuple[int, int]]:
        """Pairs of sharers whose tags are of different roots, or are missing: one of the two lies.
        They are told as client numbers."""
        kept = {self._places[n] for n in self.sharers}
        return [
            (self._numbers[one], self._numbers[other])
            for one in sorted(kept)
            for other in self._graph.neighbours(one)
            if other in kept and one < other and self._tags_differ(one, other)
        ]

    def _tags_differ(self, one: int, other: int) -> bool:
        tags = self.wrapped(one, other)[1], self.wrapped(other, one)[1]
        return tags[0] != tags[1] or NO_TAG in tags

    def list_complaints(self, ready: Any) -> list[tuple[int, int]]:
        """Holders that found a box bad, each with its sender; one that finds most bad is at fault
        itself, and does not count."""
        complaints: list[tuple[int, int]] = []
        sharers = set(self.sharers)
        for number, flags in zip(ready.clients.numbers(), ready.message.bad.tolist(), strict=True):
            senders = [self._numbers[p] for p in self._graph.holders(self._places[number])]
            named = [s for s, bad in zip(senders, flags, strict=True) if bad and s in sharers]
            self._bad.update((number, sender) for sender in named)
            if 2 * len(named) <= len(senders):
                complaints += [(number, sender) for sender in named]
        return complaints

    def complaints_of(self, sender: int) -> list[tuple[int, int]]:
        """Return the complaints about a client's boxes, by holder and sender."""
        return sorted(pair for pair in self._bad if pair[1] == sender)

    def found_bad(self, holder: int, sender: int) -> bool:
        """Return whether a client complained of a box, by the places of holder and sender."""
        return (self._numbers[holder], self._numbers[sender]) in self._bad


class Secrets:
    """Shares as they came from the holders, sorted by whose they are.

    note_odd  takes the complaints about boxes whose shares were missing in the end
    """

    def __init__(
        self,
        roster: Roster,
        graph: MaskGraph,
        session: bytes,
        dealt: Dealt,
        survivors: list[int],
        revealed: Any,
        blame: Callable[[int, str], None],
        note_odd: Callable[[list[tuple[int, int]]], None] = lambda pairs: None,
    ) -> None:
        self._note_odd = note_odd
        self._numbers: list[int] = roster.clients.tolist()
        self._places = {number: place for place, number in enumerate(self._numbers)}
        self._graph, self._session, self._dealt, self._blame = graph, session, dealt, blame
        self._alive = [self._places[n] for n in survivors]
        self._is_alive = frozenset(self._alive)
        self._dropped = sorted({self._places[n] for n in dealt.sharers} - self._is_alive)
        self._shares = self._sorted_out(revealed)

    def _sorted_out(self, revealed: Any) -> dict[int, list[shamir.Share]]:
        shares_by_owner: dict[int, list[shamir.Share]] = {}
        rows = revealed.message.shares.reshape(revealed.count, -1, shamir.SHARE_BYTES)
        known = {*self._alive, *self._dropped}
        for number, row, which in zip(
            revealed.clients.numbers(), rows, revealed.message.which.tolist(), strict=True
        ):
            holder = self._places[number]
            owners = zip(self._graph.holders(holder), to_bytes(row), which, strict=True)
            for owner, raw, kind in owners:
                if owner not in known:
                    continue
                share = self._check_share(owner, holder, raw) if kind else None
                if share is not None:
                    shares_by_owner.setdefault(owner, []).append(share)
                elif kind:
                    self._blame(number, "revealed a share that it was not dealt")
                elif not self._dealt.found_bad(holder, owner):
                    self._blame(number, "kept back a share of which it had not complained")
        return shares_by_owner

    def _check_share(self, owner: int, holder: int, raw: bytes) -> shamir.Share | None:
        """The share, if its owner dealt it."""
        alive = owner in self._is_alive
        stated_digests = self._dealt.box_digest(owner, holder)
        try:
            share = shamir.Share.decode(holder + 1, raw)
        except BadShares:
            return None
        found = shamir.share_digest(share, self._session, owner, SEED if alive else KEY)
        return share if found == (stated_digests[32:] if alive else stated_digests[:32]) else None

    def make_unmasking(self) -> Callable[[MaskContext], list[Mask]]:
        """The masks to put on a sum so that nothing but the sum is left, for any field."""
        seeds = {
            place: self._combine_shares(place, self._seed_check(place)) for place in self._alive
        }
        roots = [
            (gone, peer, root) for gone in self._dropped for peer, root in self._dropped_roots(gone)
        ]

        def list_masks(context: MaskContext) -> list[Mask]:
            self_masks = [
                Mask(derive.self_mask_key(seed, self._session, place, context), Sign.SUBTRACT)
                for place, seed in seeds.items()
            ]
            pairs = [
                Mask(
                    derive.pair_mask_key(root, gone, peer, context),
                    Sign.of(peer, gone).opposite_sign(),
                )
                for gone, peer, root in roots
            ]
            return self_masks + pairs

        return list_masks

    def _seed_check(self, place: int) -> shamir.Check:
        return shamir.commits_to(self._dealt.commitment(place), self._session, place)

    def _dropped_roots(self, gone: int) -> list[tuple[int, Secret]]:
        """The roots of a dropped client's pair masks, each as the other end knows it."""
        peers = [peer for peer in self._graph.neighbours(gone) if peer in self._is_alive]
        pair_roots: list[tuple[int, Secret]] = []

        def unwrap_roots(drop_key: Secret) -> None:
            drop_root = derive.session_root(drop_key, self._session)
            pair_roots.extend((peer, self._pair_root(drop_root, gone, peer)) for peer in peers)

        self._combine_shares(gone, unwrap_roots)
        return pair_roots

    def _pair_root(self, drop_root: Secret, gone: int, peer: int) -> Secret:
        wrapped = Secret(self._dealt.wrapped(gone, peer)[0])
        root = Secret(derive.wrapped_root(wrapped, drop_root, gone, peer))
        if derive.pair_tag(root, gone, peer) != self._dealt.wrapped(peer, gone)[1]:
            raise ReconstructionFailed(f"what party {gone} wrapped is no root of its masks")
        return root

    def _combine_shares(self, place: int, check: shamir.Check) -> Secret:
        threshold = self._graph.parameters.threshold
        shares = self._shares.get(place, [])
        if len(shares) < threshold:
            self._note_odd(self._dealt.complaints_of(self._numbers[place]))
            raise RoundAborted(
                f"secure aggregation: {len(shares)} shares of one client's secret, {threshold} "
                "are needed; the sum stays masked"
            )
        try:
            return shamir.combine_shares(shares, threshold, check)
        except (BadShares, ReconstructionFailed) as error:
            self._blame(self._numbers[place], "dealt shares that are not of its secret")
            raise RoundAborted(f"secure aggregation: {error}; the sum stays masked") from error
