"""What the server may rebuild of a session: survivors' seeds and dropped clients' drop keys.

Every share is checked against the digest that its owner dealt it with, so that a wrong one names
its sender; good shares that do not combine name their owner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from securefg.foundation.errors import RoundAborted
from securefg.secagg import derive, shamir
from securefg.secagg.arrays import to_bytes
from securefg.secagg.dealt import Dealt
from securefg.secagg.derive import MaskContext
from securefg.secagg.errors import BadShares, ReconstructionFailed
from securefg.secagg.graph import MaskGraph
from securefg.secagg.masks import Mask, Sign
from securefg.secagg.messages import Roster
from securefg.secagg.secret import Secret
from securefg.secagg.session import KEY, SEED


class Secrets:
    """Shares as they came from the holders, sorted by whose they are."""

    def __init__(
        self,
        roster: Roster,
        graph: MaskGraph,
        session: bytes,
        dealt: Dealt,
        survivors: list[int],
        revealed: Any,
        blame: Callable[[int, str], None],
    ) -> None:
        self._numbers: list[int] = roster.clients.tolist()
        self._places = {number: place for place, number in enumerate(self._numbers)}
        self._graph, self._session, self._dealt, self._blame = graph, session, dealt, blame
        self._alive = [self._places[n] for n in survivors]
        self._is_alive = frozenset(self._alive)
        self._dropped = sorted({self._places[n] for n in dealt.sharers} - self._is_alive)
        self._shares = self._sorted_out(revealed)

    def _sorted_out(self, revealed: Any) -> dict[int, list[shamir.Share]]:
        found: dict[int, list[shamir.Share]] = {}
        rows = revealed.message.shares.reshape(revealed.count, -1, shamir.SHARE_BYTES)
        known = {*self._alive, *self._dropped}
        for number, row, which in zip(
            revealed.clients.numbers(), rows, revealed.message.which.tolist(), strict=True
        ):
            holder = self._places[number]
            owners = zip(self._graph.holders(holder), to_bytes(row), which, strict=True)
            for owner, raw, kind in owners:
                if kind and owner in known:
                    share = self._checked(owner, holder, raw)
                    if share is None:
                        self._blame(number, "revealed a share that it was not dealt")
                    else:
                        found.setdefault(owner, []).append(share)
        return found

    def _checked(self, owner: int, holder: int, raw: bytes) -> shamir.Share | None:
        """The share, if its owner dealt it."""
        alive = owner in self._is_alive
        said = self._dealt.digest(owner, holder)
        try:
            share = shamir.Share.decode(holder + 1, raw)
        except BadShares:
            return None
        found = shamir.share_digest(share, self._session, owner, SEED if alive else KEY)
        return share if found == (said[32:] if alive else said[:32]) else None

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
        return shamir.commits_to(self._dealt.commitment(place), self._session, place)

    def _roots(self, gone: int) -> list[tuple[int, Secret]]:
        """The roots of a dropped client's pair masks, each as the other end knows it."""
        peers = [peer for peer in self._graph.neighbours(gone) if peer in self._is_alive]
        found: list[tuple[int, Secret]] = []

        def unwrap(drop_key: Secret) -> None:
            drop_root = derive.session_root(drop_key, self._session)
            found.extend((peer, self._root(drop_root, gone, peer)) for peer in peers)

        self._combined(gone, unwrap)
        return found

    def _root(self, drop_root: Secret, gone: int, peer: int) -> Secret:
        wrapped = Secret(self._dealt.wrapped(gone, peer)[0])
        root = Secret(derive.wrapped_root(wrapped, drop_root, gone, peer))
        if derive.pair_tag(root, gone, peer) != self._dealt.wrapped(peer, gone)[1]:
            raise ReconstructionFailed(f"what party {gone} wrapped is no root of its masks")
        return root

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
            self._blame(self._numbers[place], "dealt shares that are not of its secret")
            raise RoundAborted(f"secure aggregation: {error}; the sum stays masked") from error
