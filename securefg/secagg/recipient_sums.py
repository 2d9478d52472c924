"""Per-recipient sums: recipient k gets sum_j x_kj, the server nothing, and nobody a single x_kj.

Contributor j uploads, for every recipient k that it contributes to, in Z_2^32 or Z_2^64,

    y_kj = x_kj + PRG(r_jk) + sum_{i > j} PRG(c_ji)_k - sum_{i < j} PRG(c_ij)_k.

r_jk is agreed between j and k: only k can take it off. c_ij is agreed between two contributors of
k and vanishes when all of k's contributors are added up, not before. The server adds up per
recipient and forwards one vector. It sees uniform words; together with k, and with some of k's
contributors too, it sees the sum over the others and no more (the argument of Bonawitz et al.
2017, section 4, for each recipient apart). Several recipients that collude have several sums of
the same contributions: what these give away is a matter for `exposure.linear_exposure`.

There is no recovery: if one contributor's upload is missing, the sums of its recipients are
aborted for this round, their uploads stay masked, and the next round starts anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from securefg.secagg.derive import FreshContexts, MaskContext, expand
from securefg.secagg.encoding import Item, encode
from securefg.secagg.errors import Refused
from securefg.secagg.graph import MaskGraph
from securefg.secagg.graph_parameters import Threat, choose
from securefg.secagg.keys import PROTOCOL, VERSION, KeyPair
from securefg.secagg.masks import Mask, RowMask, Sign, apply_masks, apply_row_masks
from securefg.secagg.ring import RingArray
from securefg.secagg.secret import Secret, Unprintable

MIN_CONTRIBUTORS: Final = 3
"""A sum of two shows either of them the other's part, once the recipient tells it."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RecipientPlan:
    """Who contributes to whom in one session; every party derives the same from what is public.

    It must be agreed on beforehand, e.g. hashed into the session id: a server that could make it
    up would name colluders as a contributor's only companions.

    session      salt of all keys, see `derive.session_id`
    mask_keys    every party's X25519 key of this session, its signature checked, by number
    recipients   who gets a sum, ascending
    offsets      recipient i's edges are offsets[i] to offsets[i + 1]
    edges        (E, 2) rows (recipient, contributor), ascending: the order of all uploads
    pairs        common recipients of every two contributors that mask with each other
    """

    session: bytes
    mask_keys: tuple[bytes, ...]
    recipients: Ints
    offsets: Ints
    edges: Ints
    pairs: Mapping[tuple[int, int], Ints]

    @classmethod
    def of(
        cls,
        contributors: Mapping[int, Iterable[int]],
        mask_keys: Sequence[bytes],
        session: bytes,
        threat: Threat,
    ) -> RecipientPlan:
        """From every recipient's contributors. Raises `Refused` where a sum would hide too little.

        Up to 32 contributors all mask with one another; more, along a random sparse graph, in
        which the honest ones stay connected (Bell et al. 2020, section 3).
        """
        sums = {k: np.array(sorted(contributors[k]), np.int64) for k in sorted(contributors)}
        for recipient, members in sums.items():
            _check(recipient, members, len(mask_keys))
        sizes = [members.size for members in sums.values()]
        recipients = np.array(list(sums), np.int64)
        ends = [np.repeat(recipients, sizes), np.concatenate([*sums.values(), np.zeros(0, int)])]
        return cls(
            session,
            tuple(mask_keys),
            recipients,
            np.cumsum([0, *sizes]),
            np.stack(ends, axis=1),
            _pairs(sums, mask_keys, session, threat),
        )

    def rows_of(self, contributors: Iterable[int]) -> Ints:
        """The edges of these contributors: the rows that their host uploads, in this order."""
        return np.flatnonzero(np.isin(self.edges[:, 1], list(contributors)))


def _check(recipient: int, members: Ints, num_parties: int) -> None:
    if members.size < MIN_CONTRIBUTORS:
        raise Refused(
            f"the sum for recipient {recipient} has {members.size} contributors, wanted at least "
            f"{MIN_CONTRIBUTORS}: the fewer there are, the more the sum says about each"
        )
    if np.unique(members).size < members.size or recipient in members:
        raise Refused(
            f"the sum for recipient {recipient} names a contributor twice, or the recipient itself"
        )
    if min(recipient, members[0]) < 0 or max(recipient, members[-1]) >= num_parties:
        raise Refused(f"the sum for recipient {recipient} names a party that nobody knows")


def _pairs(
    sums: Mapping[int, Ints], mask_keys: Sequence[bytes], session: bytes, threat: Threat
) -> dict[tuple[int, int], Ints]:
    common: dict[tuple[int, int], list[int]] = {}
    for recipient, members in sums.items():
        keys = tuple(mask_keys[member] for member in members)
        seed = hashlib.sha256(encode(("recipient-graph", session, recipient, keys))).digest()
        graph = MaskGraph.drawn(choose(members.size, threat), seed)
        for low, high in members[graph.pairs()].tolist():
            common.setdefault((low, high), []).append(recipient)
    return {pair: np.array(recipients, np.int64) for pair, recipients in common.items()}


@final
class Correspondents(Unprintable):
    """The parties of one host, with their key pairs of the session: contributors, recipients."""

    __slots__ = ("_contexts", "_key_pairs", "_opened", "_plan", "_roots")

    def __init__(self, plan: RecipientPlan, key_pairs: Mapping[int, KeyPair]) -> None:
        for party, pair in key_pairs.items():
            if pair.public != plan.mask_keys[party]:
                raise Refused(f"the plan has another key for party {party} than its own")
        self._plan, self._key_pairs = plan, dict(key_pairs)
        self._roots: dict[tuple[int, int], Secret] = {}
        self._contexts, self._opened = FreshContexts(), FreshContexts()

    def mask(self, rows: RingArray, context: MaskContext) -> None:
        """Mask the rows x_kj of `plan.rows_of(parties)`, in place. A context serves once.

        The mask of a pair is one keystream over all recipients that the two have in common, so
        that a round costs one key per pair and one per edge, not one per pair and recipient.
        """
        edges = self._plan.edges[self._plan.rows_of(self._key_pairs)]
        _require_shape(rows, len(edges), context)
        self._contexts.claim(context)
        apply_row_masks(rows, list(self._masks_for_recipients(edges, context)))
        place = {(k, j): row for row, (k, j) in enumerate(edges.tolist())}
        for (low, high), recipients in self._plan.pairs.items():
            pad: RingArray | None = None
            for party, combine in ((low, np.add), (high, np.subtract)):
                if party in self._key_pairs:
                    pad = self._pad(low, high, recipients, context) if pad is None else pad
                    own = [place[k, party] for k in recipients.tolist()]
                    rows[own] = combine(rows[own], pad)

    def open(self, totals: RingArray, recipients: Sequence[int], context: MaskContext) -> None:
        """Take the recipients' own masks off the vectors that the server forwarded, in place."""
        _require_shape(totals, len(recipients), context)
        self._opened.claim(context)
        row_of = {recipient: row for row, recipient in enumerate(recipients)}
        masks = [
            RowMask(self._recipient_key(k, j, k, context), None, row_of[k])
            for k, j in self._plan.edges.tolist()
            if k in row_of
        ]
        apply_row_masks(totals, masks)

    def _masks_for_recipients(self, edges: Ints, context: MaskContext) -> Iterator[RowMask]:
        for row, (recipient, contributor) in enumerate(edges.tolist()):
            key = self._recipient_key(contributor, contributor, recipient, context)
            yield RowMask(key, row, None)

    def _recipient_key(
        self, own: int, contributor: int, recipient: int, context: MaskContext
    ) -> Secret:
        peer = recipient if own == contributor else contributor
        return expand(self._root(own, peer), recipient_info(contributor, recipient, context))

    def _pad(self, low: int, high: int, recipients: Ints, context: MaskContext) -> RingArray:
        own, peer = (low, high) if low in self._key_pairs else (high, low)
        info = contributor_info(low, high, tuple(recipients.tolist()), context)
        pad = np.zeros(recipients.size * context.length, f"<u{context.modulus_bits // 8}")
        apply_masks(pad, [Mask(expand(self._root(own, peer), info), Sign.ADD)])
        return pad.reshape(recipients.size, context.length)

    def _root(self, own: int, peer: int) -> Secret:
        if (own, peer) not in self._roots:
            agreed = self._key_pairs[own].agree(self._plan.mask_keys[peer], self._plan.session)
            self._roots[own, peer] = agreed
        return self._roots[own, peer]


def recipient_info(contributor: int, recipient: int, context: MaskContext) -> bytes:
    """HKDF info of the mask that the contributor adds and only the recipient can subtract."""
    return encode((PROTOCOL, VERSION, "recipient-mask", contributor, recipient, *_items(context)))


def contributor_info(
    low: int, high: int, recipients: tuple[int, ...], context: MaskContext
) -> bytes:
    """HKDF info of a pair's masks. It names the recipients that the keystream is cut up among:
    two contributors that were told different ones get masks that do not cancel."""
    return encode((PROTOCOL, VERSION, "contributor-mask", low, high, recipients, *_items(context)))


def _items(context: MaskContext) -> tuple[Item, ...]:
    modulus = 1 << context.modulus_bits
    return (context.round, context.message, context.field, context.length, modulus)


@dataclass(frozen=True, eq=False)
class Forwarded:
    """What the server sends on: a masked vector for each recipient, in order, and who gets none."""

    recipients: tuple[int, ...]
    totals: RingArray
    aborted: tuple[int, ...]


def forward(plan: RecipientPlan, rows: RingArray, arrived: Iterable[int]) -> Forwarded:
    """The server's part: sum_j y_kj for each recipient whose contributors all arrived.

    `rows` are the arrived contributors' uploads, in the order of `plan.rows_of(arrived)`. A sum
    that lacks an upload would keep that contributor's pair masks: it is aborted.
    """
    present = plan.rows_of(arrived)
    if len(rows) != present.size:
        raise Refused(f"{len(rows)} uploads came, wanted {present.size}: one for each edge")
    whole = np.zeros((len(plan.edges), rows.shape[1]), rows.dtype)
    whole[present] = rows
    missing = np.ones(len(plan.edges), np.int64)
    missing[present] = 0
    starts = plan.offsets[:-1]
    complete = np.add.reduceat(missing, starts) == 0
    totals: RingArray = np.add.reduceat(whole, starts, axis=0, dtype=rows.dtype)[complete]
    recipients = plan.recipients
    return Forwarded(
        tuple(recipients[complete].tolist()), totals, tuple(recipients[~complete].tolist())
    )


def _require_shape(rows: RingArray, num_rows: int, context: MaskContext) -> None:
    wanted, bits = (num_rows, context.length), 8 * rows.itemsize
    if rows.shape != wanted or bits != context.modulus_bits:
        raise Refused(
            f"{context.message}.{context.field}: found {rows.shape} of {bits} bits, wanted "
            f"{wanted} of {context.modulus_bits} bits"
        )
