"""The first links of all chains between a host's clients and those they meet, in one set-up.

A box secret has a direction: its sender encapsulates to the receiver's box key, so that a box
leaves with the ciphertext that opens it. A mask secret belongs to a pair, and one end of the pair
encapsulates (`MaskGraph.ahead`). Both are mixed with an X25519 secret (`derive.hybrid_link`).
Masks and boxes have key pairs of their own: a mask key may be opened in a dispute, a box key never.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from securefg.secagg import hybrid
from securefg.secagg.derive import Purpose, first_link, hybrid_link
from securefg.secagg.graph import MaskGraph
from securefg.secagg.hybrid import CIPHERTEXT_BYTES, FreshPair, Suite
from securefg.secagg.secret import RandomBytes, Secret, Unprintable

Pair = tuple[int, int]
Chains = dict[Pair, Secret]

NO_CIPHERTEXT: Final = bytes(CIPHERTEXT_BYTES)


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
    """The ciphertexts that one client sends: to all it seals boxes for, and to those ahead."""

    boxes: list[bytes]
    masks: list[bytes]


def ordered(one: int, other: int) -> Pair:
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
        self._sent: dict[Pair, tuple[Secret, bytes]] = {}

    # ---------------------------------------------------------------------------- what is sent

    def offer(self, place: int) -> tuple[Offer, Chains]:
        """Encapsulate to everybody this client meets; returns its outgoing box links too."""
        made, links = Offer([], []), Chains()
        for peer in box_partners(self._graph, place, self._with_pads):
            encapsulated = self._encapsulate(self._boxes[peer])
            links[place, peer] = self._box_link(place, place, peer, encapsulated)
            made.boxes.append(encapsulated[1] if encapsulated else b"")
        for peer in self._graph.ahead(place) if self._suite == "hybrid" else ():
            self._sent[place, peer] = encapsulated = hybrid.encapsulate(self._masks[peer])
            made.masks.append(encapsulated[1])
        made.masks.extend([NO_CIPHERTEXT] * (self._graph.num_ahead - len(made.masks)))
        return made, links

    def _encapsulate(self, key: bytes) -> tuple[Secret, bytes] | None:
        return hybrid.encapsulate(key) if self._suite == "hybrid" else None

    def _box_link(
        self, own: int, sender: int, receiver: int, encapsulated: tuple[Secret, bytes] | None
    ) -> Secret:
        pair, peer = ordered(sender, receiver), receiver if own == sender else sender
        if pair not in self._agreed:
            self._agreed[pair] = self._pairs[own].boxes.exchange(self._boxes[peer])
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
                    encapsulated = self._pairs[place].boxes.decapsulate(ciphertext), ciphertext
                links[sender, place] = self._box_link(place, sender, place, encapsulated)
        return links

    def receive_masks(
        self, place: int, senders: Collection[int], rows: Sequence[bytes], known: Container[Pair]
    ) -> Chains:
        """The links of pair masks that are not known yet; a row of ciphertext for each neighbour
        behind."""
        links = Chains()
        behind = {peer: at for at, peer in enumerate(self._graph.behind(place))}
        for peer in self._graph.neighbours(place):
            pair = ordered(place, peer)
            if peer not in senders or pair in known:
                continue
            agreed = self._pairs[place].masks.exchange(self._masks[peer])
            sender, receiver = (peer, place) if peer in behind else (place, peer)
            encapsulated = self._sent.get((sender, receiver))
            if encapsulated is None and self._suite == "hybrid":
                ciphertext = rows[behind[peer]]
                encapsulated = self._pairs[place].masks.decapsulate(ciphertext), ciphertext
            links[pair] = mask_link(self._setup, agreed, encapsulated, sender, receiver)
        return links

    # ------------------------------------------------------------------------------ afterwards

    def mask_secret(self, place: int) -> Secret:
        """The secret behind a client's mask key, for a dispute."""
        return self._pairs[place].masks.secret
