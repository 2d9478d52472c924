"""The first links of all chains between a host's clients and those they meet, in one set-up.

A box secret has a direction: its sender encapsulates to the receiver's box key, so that a box
leaves with the ciphertext that opens it. A mask secret belongs to a pair, and one end of the pair
encapsulates (`MaskGraph.ahead`). Both are mixed with an X25519 secret (`derive.hybrid_link`).
Masks and boxes have key pairs of their own: a mask key may be opened in a dispute, a box key never.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from securefg.secagg import hybrid
from securefg.secagg.derive import (
    TAG_BYTES,
    Purpose,
    first_link,
    hybrid_link,
    mask_confirmation,
)
from securefg.secagg.graph import MaskGraph
from securefg.secagg.hybrid import CIPHERTEXT_BYTES, FreshPair, Suite
from securefg.secagg.secret import RandomBytes, Secret, Unprintable

Pair = tuple[int, int]
Chains = dict[Pair, Secret]

OFFER_BYTES: Final = CIPHERTEXT_BYTES + TAG_BYTES
"""A mask ciphertext with its confirmation (`derive.mask_confirmation`)."""

NO_OFFER: Final = bytes(OFFER_BYTES)


@dataclass(frozen=True)
class KeyPairs:
    """One client's two fresh key pairs."""

    masks: FreshPair
    boxes: FreshPair

    @classmethod
    def fresh(cls, suite: Suite, random_bytes: RandomBytes) -> KeyPairs:
        """Return new key pairs for masks and for boxes."""
        masks, boxes = (FreshPair(Secret.fresh(random_bytes), suite) for _ in range(2))
        return cls(masks, boxes)


@dataclass(frozen=True)
class Offer:
    """The ciphertexts that one client sends: to all it seals boxes for, and to those ahead.

    masks  each with its confirmation
    """

    boxes: list[bytes]
    masks: list[bytes]


def order_pair(one: int, other: int) -> Pair:
    """Return both places, the lower one first."""
    return (one, other) if one < other else (other, one)


def box_partners(graph: MaskGraph, place: int, with_pads: bool) -> Sequence[int]:
    """The places that a client makes box secrets with: its holders, or everybody for pads."""
    return range(graph.parameters.num_clients) if with_pads else graph.holders(place)


def mask_link(
    setup: bytes, agreed: Secret, encapsulated: tuple[Secret, bytes] | None, sender: int, peer: int
) -> Secret:
    """The first link of a pair's masks; `sender` encapsulated. None: X25519 alone."""
    if encapsulated is None:
        return first_link(setup, agreed)
    return hybrid_link(setup, Purpose.MASK_LINK, agreed, *encapsulated, sender, peer)


def confirmed_link(
    setup: bytes, keys: FreshPair, agreed: Secret, offer: bytes, ends: Pair
) -> Secret | None:
    """The first link that a mask ciphertext gives its receiver; None where the confirmation beside
    it is of another link.

    ends  sender and receiver
    """
    ciphertext, confirmation = offer[:CIPHERTEXT_BYTES], offer[CIPHERTEXT_BYTES:]
    encapsulated = keys.open_ciphertext(ciphertext), ciphertext
    link = mask_link(setup, agreed, encapsulated, *ends)
    is_confirmed = hmac.compare_digest(mask_confirmation(link, *ends), confirmation)
    return link if is_confirmed else None


@final
class Linking(Unprintable):
    """Makes links from key pairs, by places. Every link is made once, also for two of one host.

    pairs      the key pairs of this host's clients
    mask_keys  everybody's public keys for masks
    box_keys   everybody's public keys for boxes
    """

    __slots__ = (
        "_agreed",
        "_boxes",
        "_graph",
        "_masks",
        "_pairs",
        "_sent",
        "_setup",
        "_suite",
        "_with_pads",
    )

    def __init__(
        self,
        setup: bytes,
        suite: Suite,
        graph: MaskGraph,
        pairs: Mapping[int, KeyPairs],
        mask_keys: Sequence[bytes],
        box_keys: Sequence[bytes],
        with_pads: bool,
    ) -> None:
        self._setup, self._suite, self._graph, self._with_pads = setup, suite, graph, with_pads
        self._pairs, self._masks, self._boxes = dict(pairs), mask_keys, box_keys
        self._agreed: Chains = {}
        self._sent: Chains = {}

    # ---------------------------------------------------------------------------- what is sent

    def make_offer(self, place: int) -> tuple[Offer, Chains]:
        """Encapsulate to everybody this client meets. Return its outgoing box links too."""
        made, links = Offer([], []), Chains()
        for peer in box_partners(self._graph, place, self._with_pads):
            encapsulated = self._encapsulate_secret(self._boxes[peer])
            links[place, peer] = self._box_link(place, place, peer, encapsulated)
            made.boxes.append(encapsulated[1] if encapsulated else b"")
        for peer in self._graph.neighbours_ahead(place) if self._suite == "hybrid" else ():
            made.masks.append(self._offer_mask(place, peer))
        made.masks.extend([NO_OFFER] * (self._graph.num_ahead - len(made.masks)))
        return made, links

    def _offer_mask(self, place: int, peer: int) -> bytes:
        """Encapsulate a mask secret to a neighbour ahead; return the ciphertext, confirmed."""
        encapsulated = hybrid.encapsulate_secret(self._masks[peer])
        agreed = self._pairs[place].masks.exchange(self._masks[peer])
        link = mask_link(self._setup, agreed, encapsulated, place, peer)
        self._sent[place, peer] = link
        return encapsulated[1] + mask_confirmation(link, place, peer)

    def _encapsulate_secret(self, key: bytes) -> tuple[Secret, bytes] | None:
        return hybrid.encapsulate_secret(key) if self._suite == "hybrid" else None

    def _box_link(
        self, own_place: int, sender: int, receiver: int, encapsulated: tuple[Secret, bytes] | None
    ) -> Secret:
        pair, peer = order_pair(sender, receiver), receiver if own_place == sender else sender
        if pair not in self._agreed:
            self._agreed[pair] = self._pairs[own_place].boxes.exchange(self._boxes[peer])
        if encapsulated is None:
            return first_link(self._setup, self._agreed[pair])
        about = (self._agreed[pair], *encapsulated, sender, receiver)
        return hybrid_link(self._setup, Purpose.BOX_LINK, *about)

    # ------------------------------------------------------------------------ what is received

    def receive_boxes(
        self, place: int, senders: Collection[int], rows: Sequence[bytes], known: Container[Pair]
    ) -> Chains:
        """The links of boxes to this client that are not known yet; a row of ciphertext for each of
        its partners."""
        links = Chains()
        for at, sender in enumerate(box_partners(self._graph, place, self._with_pads)):
            if sender in senders and (sender, place) not in known:
                encapsulated = None
                if self._suite == "hybrid":
                    ciphertext = rows[at]
                    encapsulated = self._pairs[place].boxes.open_ciphertext(ciphertext), ciphertext
                links[sender, place] = self._box_link(place, sender, place, encapsulated)
        return links

    def receive_masks(
        self, place: int, senders: Collection[int], rows: Sequence[bytes], known: Container[Pair]
    ) -> Chains:
        """The links of pair masks that are not known yet; a row of ciphertext for each neighbour
        behind. A neighbour whose ciphertext is not confirmed gets no link."""
        links = Chains()
        behind = {peer: at for at, peer in enumerate(self._graph.neighbours_behind(place))}
        for peer in self._graph.neighbours(place):
            pair = order_pair(place, peer)
            if peer not in senders or pair in known:
                continue
            sender, receiver = (peer, place) if peer in behind else (place, peer)
            link = self._sent.get((sender, receiver))
            if link is None:
                offer = rows[behind[peer]] if self._suite == "hybrid" else b""
                link = self._received_link(sender, receiver, place, offer)
            if link is not None:
                links[pair] = link
        return links

    def _received_link(self, sender: int, receiver: int, own: int, offer: bytes) -> Secret | None:
        """The link that a neighbour's ciphertext gives; None if the sender has another."""
        peer = sender if own == receiver else receiver
        keys = self._pairs[own].masks
        agreed = keys.exchange(self._masks[peer])
        if self._suite == "classical":
            return mask_link(self._setup, agreed, None, sender, receiver)
        return confirmed_link(self._setup, keys, agreed, offer, (sender, receiver))

    # ------------------------------------------------------------------------------ afterwards

    def mask_secret(self, place: int) -> Secret:
        """The secret behind a client's mask key, for a dispute."""
        return self._pairs[place].masks.secret
