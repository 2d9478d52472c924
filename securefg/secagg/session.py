"""What the clients of one host hold in a session, and make of it: boxes, masks, revealed shares.

Nothing is refused here: `client.py` decides what a server may ask for, and when.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor

from securefg.secagg import boxes, derive, shamir
from securefg.secagg.derive import FreshContexts, MaskContext
from securefg.secagg.encoding import Item
from securefg.secagg.errors import BadBox, BadShares, Refused
from securefg.secagg.graph import MaskGraph
from securefg.secagg.hybrid import Suite
from securefg.secagg.links import OFFER_BYTES, KeyPairs, Offer, Pair, order_pair
from securefg.secagg.masks import RowMask
from securefg.secagg.recipient_sums import Pads
from securefg.secagg.ring import from_bytes, to_bytes
from securefg.secagg.seats import Roots, Seats
from securefg.secagg.secret import SECRET_BYTES, RandomBytes, Secret
from securefg.secagg.shamir import SHARE_BYTES, Share
from securefg.secagg.statements import pairs_statement

KEY, SEED = "key", "seed"
"""What a share is of."""

WRAPPED_BYTES: Final = SECRET_BYTES + derive.TAG_BYTES
BOX_BYTES: Final = boxes.NONCE_BYTES + 2 * SHARE_BYTES + boxes.TAG_BYTES
DIGEST_BYTES: Final = 64
NO_TAG: Final = bytes(derive.TAG_BYTES)
"""In place of the tag of a pair without a link: its ciphertext was not confirmed."""


@dataclass
class Party:
    """One client's secrets in one session; `held_*` are its shares of others', by their place.

    seed      of its self mask: opened if it survives
    drop_key  under which it wraps the roots of its pair masks: opened if it drops out
    """

    number: int
    seed: Secret
    drop_key: Secret
    held_seed: dict[int, Share] = field(default_factory=dict, repr=False)
    held_key: dict[int, Share] = field(default_factory=dict, repr=False)

    @classmethod
    def fresh(cls, number: int, random_bytes: RandomBytes) -> Party:
        """Return a client with a new seed and a new drop key."""
        return cls(number, Secret.fresh(random_bytes), Secret.fresh(random_bytes))


@dataclass(frozen=True)
class Sealed:
    """What a client deals to its holders, a row for each."""

    boxes: list[bytes]
    digests: list[bytes]


@dataclass(frozen=True)
class SignedPairs:
    """A client's signed word on its pairs, in the first session of a set-up."""

    wrapped: list[bytes]
    sent: list[bytes]
    received: list[bytes]
    signature: bytes


def has_full_rows(graph: MaskGraph, place: int, suite: Suite, pairs: SignedPairs) -> bool:
    """Whether signed rows have the widths of the format.

    A signature is over the joined rows. Rows that are cut again at other places keep it, and would
    show another tag than their owner signed.
    """
    ahead = graph.num_ahead if suite == "hybrid" else 0
    tags = [len(row) for row in pairs.wrapped]
    sizes = [len(row) for row in (*pairs.sent, *pairs.received)]
    return (
        tags == [WRAPPED_BYTES] * len(graph.holders(place))
        and len(pairs.sent) == len(pairs.received) == ahead
        and sizes == [OFFER_BYTES] * (2 * ahead)
    )


def pair_offer(graph: MaskGraph, own_place: int, peer: int, pairs: SignedPairs) -> bytes:
    """The confirmed mask ciphertext between two places, as the client at `own_place` sent or
    received it."""
    if not pairs.sent:
        return b""
    ahead = graph.neighbours_ahead(own_place)
    if peer in ahead:
        return pairs.sent[ahead.index(peer)]
    return pairs.received[graph.neighbours_behind(own_place).index(peer)]


@dataclass
class Session:
    """What the clients of a host know of the session they are in; replaced by the next one.

    pairs      fresh key pairs, from the advertisement to the roster
    ordinal    which session of its set-up this is
    sharers    those of the clients whose shares were delivered
    survivors  those of the sharers whose masked replies arrived
    openers    the clients of this host that were told the survivors
    opened     those that opened their mask key; nothing else happens in the session afterwards
    """

    round: int
    purpose: str
    parties: dict[int, Party]
    pairs: dict[int, KeyPairs] = field(default_factory=dict, repr=False)
    id: bytes = b""
    model_hash: bytes = b""
    sharers: tuple[int, ...] = ()
    contexts: FreshContexts = field(default_factory=FreshContexts)
    agreed: tuple[int, ...] | None = None
    answered: bool = False
    unmasked: bool = False
    survivors: tuple[int, ...] = ()
    openers: tuple[int, ...] = ()
    opened: set[int] = field(default_factory=set)
    _seats: Seats | None = None
    _roots: Roots = field(default_factory=Roots, repr=False)
    _tags: dict[Pair, bytes] = field(default_factory=dict, repr=False)
    _at_home: dict[tuple[int, int], tuple[bytes, bytes, Share, Share]] = field(
        default_factory=dict, repr=False
    )
    ordinal: int = 0
    _offers: dict[int, list[bytes]] = field(default_factory=dict, repr=False)
    _received: dict[int, list[bytes]] = field(default_factory=dict, repr=False)

    def begin(self, seats: Seats, ordinal: int, model_hash: bytes) -> None:
        """Take the next link of every chain; in the first session of a set-up there is none yet."""
        self._seats, self.model_hash, self.ordinal = seats, model_hash, ordinal
        about = (ordinal, self.round, self.purpose, model_hash)
        self.id = derive.session_id(seats.id, *about)
        self._roots = seats.session_roots(ordinal, self.id)
        self.pairs = {}

    @property
    def is_first(self) -> bool:
        """Whether links are made in this session, from key pairs and ciphertexts."""
        return self.ordinal == 0

    def offer_links(self, number: int) -> Offer:
        """Make the client's outgoing box links. Return the ciphertexts that they travel in."""
        linking = self.seats.linking
        assert linking is not None, "the first session of a set-up has key pairs"
        offer, boxes = linking.make_offer(self.places[number])
        self.seats.add_links({}, boxes, self.id, self._roots)
        self._offers[number] = offer.masks if self.seats.suite == "hybrid" else []
        return offer

    def take_links(
        self, number: int, box_ciphertexts: list[bytes], mask_ciphertexts: list[bytes]
    ) -> None:
        """Make the client's other links, with all who shared."""
        linking, place = self.seats.linking, self.places[number]
        assert linking is not None, "the first session of a set-up has key pairs"
        senders = {self.places[n] for n in self.sharers}
        known = self._roots
        boxes = linking.receive_boxes(place, senders, box_ciphertexts, known.boxes)
        masks = linking.receive_masks(place, senders, mask_ciphertexts, known.masks)
        self.seats.add_links(masks, boxes, self.id, known)

    def links_all(self, sharers: Collection[int], numbers: Collection[int]) -> bool:
        """Whether these clients have a link with every neighbour that shared."""
        places = {self.places[n] for n in sharers}
        return all(
            order_pair(self.places[n], peer) in self._roots.masks
            for n in numbers
            for peer in self.graph.neighbours(self.places[n])
            if peer in places
        )

    @property
    def seats(self) -> Seats:
        """The set-up that the session is of; there is none before the roster."""
        assert self._seats is not None, "nobody has a place before the roster"
        return self._seats

    @property
    def clients(self) -> tuple[int, ...]:
        """Everybody in the session, in the order of their places."""
        return self.seats.clients

    @property
    def places(self) -> dict[int, int]:
        """Every client's place in the roster."""
        return self.seats.places

    @property
    def graph(self) -> MaskGraph:
        """Who masks with whom."""
        return self.seats.graph

    @property
    def pads(self) -> Pads:
        """The pads of sums for recipients. Raise `Refused` where the set-up has none."""
        if not (self.seats.with_pads and self.is_first):
            raise Refused("sums for recipients take a set-up of their own")
        return Pads(self._roots.boxes, self.places)

    def fewest_around(self, clients: Collection[int], numbers: Collection[int]) -> int:
        """How many of `clients` are among a client's holders, at the one of `numbers` that has the
        fewest."""
        places = {self.places[n] for n in clients}
        return min(len(places & set(self.graph.holders(self.places[n]))) for n in numbers)

    # --------------------------------------------------------------------------- shares and boxes

    def seal_shares(self, number: int, random_bytes: RandomBytes) -> Sealed:
        """Shares of the client's drop key and of its seed, in one box for each holder, and the
        digests of both. A holder without a link is away in this set-up: its row is zeros."""
        party, place = self.parties[number], self.places[number]
        holders = self.graph.holders(place)
        points = [holder + 1 for holder in holders]
        threshold = self.graph.parameters.threshold
        of_key = shamir.split_secret(party.drop_key, points, threshold, random_bytes)
        of_seed = shamir.split_secret(party.seed, points, threshold, random_bytes)
        made = Sealed([], [])
        for holder, key_share, seed_share in zip(holders, of_key, of_seed, strict=True):
            root = self._roots.boxes.get((place, holder))
            if root is None:
                made.boxes.append(bytes(BOX_BYTES))
                made.digests.append(bytes(DIGEST_BYTES))
                continue
            both = key_share.encode() + seed_share.encode()
            box = boxes.seal_box(root, self.id, place, holder, both, random_bytes)
            digests = self._share_digests(place, key_share, seed_share)
            made.boxes.append(box)
            made.digests.append(digests)
            if self.clients[holder] in self.parties:
                self._at_home[place, holder] = (box, digests, key_share, seed_share)
        return made

    def wrap_roots(self, number: int) -> list[bytes]:
        """The roots of the client's pair masks under its drop key, with their tags, by holder."""
        place = self.places[number]
        drop_root = derive.session_root(self.parties[number].drop_key, self.id)
        return [self._wrap_root(drop_root, place, peer) for peer in self.graph.holders(place)]

    def _wrap_root(self, drop_root: Secret, place: int, peer: int) -> bytes:
        pair = order_pair(place, peer)
        root = self._roots.masks.get(pair)
        if root is None:  # the client itself, or one that is away in this set-up
            return bytes(WRAPPED_BYTES)
        wrapped = derive.wrapped_root(root, drop_root, place, peer)
        if pair not in self._tags:  # both ends may be of this host
            self._tags[pair] = derive.pair_tag(root, *pair)
        return wrapped + self._tags[pair]

    def pairs_statement(
        self, number: int, wrapped: list[bytes], received: list[bytes]
    ) -> tuple[Item, ...]:
        """What the client signs of its pairs: its tags, and mask ciphertexts of both directions."""
        self._received[number] = received
        return pairs_statement(self.id, number, wrapped, self._offers[number], received)

    def differs_from(self, number: int, peer: int, pairs: SignedPairs) -> bool:
        """Whether a neighbour's rows have another tag than the client's, on the same ciphertext; or
        whether that ciphertext is one whose confirmation the client rejected."""
        place, other = self.places[number], self.places.get(peer, -1)
        is_near = peer in self.sharers and other in self.graph.neighbours(place)
        if not is_near or number not in self._received:
            return False
        if not has_full_rows(self.graph, other, self.seats.suite, pairs):
            return False
        own = SignedPairs([], self._offers[number], self._received[number], b"")
        tag = pairs.wrapped[self.graph.holders(other).index(place)][-derive.TAG_BYTES :]
        same = pair_offer(self.graph, place, other, own) == pair_offer(
            self.graph, other, place, pairs
        )
        known = self._tags.get(order_pair(place, other), NO_TAG)
        return same and (tag != known or known == NO_TAG)

    def _share_digests(self, owner: int, key_share: Share, seed_share: Share) -> bytes:
        return shamir.share_digest(key_share, self.id, owner, KEY) + shamir.share_digest(
            seed_share, self.id, owner, SEED
        )

    def open_boxes(self, number: int, rows: Tensor, digests: Tensor) -> list[int]:
        """Keep the shares that the sharers sealed for this client; 1 for every box that does not
        hold what its sender said."""
        party, place = self.parties[number], self.places[number]
        sharers, clients, bad = set(self.sharers), self.clients, []
        party.held_key, party.held_seed = {}, {}
        senders = zip(self.graph.holders(place), to_bytes(rows), to_bytes(digests), strict=True)
        for sender, box, stated_digests in senders:
            bad.append(0)
            if clients[sender] not in sharers:
                continue
            shares = self._open_box(sender, place, box, stated_digests)
            if shares is None:
                bad[-1] = 1
            else:
                party.held_key[sender], party.held_seed[sender] = shares
        return bad

    def _open_box(
        self, sender: int, place: int, box: bytes, stated_digests: bytes
    ) -> tuple[Share, Share] | None:
        """The two shares in a box, unless they are not what their sender said. A box that this host
        sealed itself, to the bit, holds what it put there."""
        known = self._at_home.get((sender, place))
        if known is not None and known[:2] == (box, stated_digests):
            return known[2:]
        try:
            root = self._roots.boxes[sender, place]
            both = boxes.open_box(root, self.id, sender, place, box)
            of_key = Share.decode(place + 1, both[:SHARE_BYTES])
            of_seed = Share.decode(place + 1, both[SHARE_BYTES:])
        except (BadBox, BadShares):
            return None
        return (
            (of_key, of_seed)
            if self._share_digests(sender, of_key, of_seed) == stated_digests
            else None
        )

    def leave_out(self) -> None:
        """Forget the shares of those who are no sharers any more."""
        kept = {self.places[n] for n in self.sharers}
        for party in self.parties.values():
            party.held_key = {p: s for p, s in party.held_key.items() if p in kept}
            party.held_seed = {p: s for p, s in party.held_seed.items() if p in kept}

    def shares_to_reveal(self, number: int, alive: set[int]) -> tuple[Tensor, Tensor]:
        """Of those alive the share of the seed, of all others that of the drop key; never both."""
        party, place = self.parties[number], self.places[number]
        shares, which = [], []
        for other in self.graph.holders(place):
            held = party.held_seed if other in alive else party.held_key
            share = held.get(other)
            shares.append(share.encode() if share else bytes(SHARE_BYTES))
            which.append(0 if share is None else 1 if other in alive else 2)
        return from_bytes(shares), torch.tensor(which, dtype=torch.uint8)

    # -------------------------------------------------------------------------------------- masks

    def row_masks(self, numbers: list[int], context: MaskContext) -> list[RowMask]:
        """Every client's self mask, and its pair masks with the neighbours that shared keys."""
        row_of = {self.places[n]: row for row, n in enumerate(numbers)}
        sharers, clients, masks = set(self.sharers), self.clients, []
        for place, row in row_of.items():
            party = self.parties[clients[place]]
            own = derive.self_mask_key(party.seed, self.id, place, context)
            masks.append(RowMask(own, row, None))
            for peer in self.graph.neighbours(place):
                if clients[peer] not in sharers or (peer in row_of and peer < place):
                    continue  # a pair within this host is made once, by its lower end
                root = self._roots.masks[order_pair(place, peer)]
                key = derive.pair_mask_key(root, place, peer, context)
                rows = (row, row_of.get(peer))
                masks.append(RowMask(key, *(rows if place < peer else rows[::-1])))
        return masks
