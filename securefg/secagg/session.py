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
from securefg.secagg.errors import BadBox, BadShares, Refused
from securefg.secagg.graph import MaskGraph
from securefg.secagg.masks import RowMask
from securefg.secagg.recipient_sums import Pads
from securefg.secagg.ring import from_bytes, to_bytes
from securefg.secagg.seats import KeyPairs, Pair, Roots, Seats, ordered
from securefg.secagg.secret import SECRET_BYTES, RandomBytes, Secret
from securefg.secagg.shamir import SHARE_BYTES, Share

KEY, SEED = "key", "seed"
"""What a share is of."""

WRAPPED_BYTES: Final = SECRET_BYTES + derive.TAG_BYTES
BOX_BYTES: Final = boxes.NONCE_BYTES + 2 * SHARE_BYTES + boxes.TAG_BYTES
DIGEST_BYTES: Final = 64


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
    wrapped: list[bytes]


@dataclass
class Session:
    """What the clients of a host know of the session they are in; replaced by the next one.

    pairs      fresh key pairs, from the advertisement to the roster
    sharers    those of the clients whose shares were delivered
    survivors  those of the sharers whose masked replies arrived
    openers    the clients of this host that were told the survivors
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
    _seats: Seats | None = None
    _roots: Roots = field(default_factory=Roots, repr=False)
    _tags: dict[Pair, bytes] = field(default_factory=dict, repr=False)
    _at_home: dict[tuple[int, int], tuple[bytes, bytes, Share, Share]] = field(
        default_factory=dict, repr=False
    )
    _pads: Pads | None = None

    def begin(self, seats: Seats, ordinal: int, model_hash: bytes) -> None:
        """Take the next link of every chain. The key pairs are of no use any more, but for pads:
        those are made in the first session of a set-up alone."""
        self._seats, self.model_hash = seats, model_hash
        about = (ordinal, self.round, self.purpose, model_hash)
        self.id = derive.session_id(seats.id, *about)
        self._roots = seats.roots(ordinal, self.id)
        if self.pairs:
            boxes_ = {number: pair.boxes for number, pair in self.pairs.items()}
            self._pads = Pads(self.id, boxes_, seats.box_keys)
            self.pairs = {}

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
        """The pads of sums for recipients; raises `Refused` where the set-up has none."""
        if self._pads is None:
            raise Refused("sums for recipients take a set-up of their own")
        return self._pads

    def fewest_around(self, clients: Collection[int], numbers: Collection[int]) -> int:
        """How many of `clients` are among a client's holders, at the one of `numbers` that has the
        fewest."""
        places = {self.places[n] for n in clients}
        return min(len(places & set(self.graph.holders(self.places[n]))) for n in numbers)

    # --------------------------------------------------------------------------- shares and boxes

    def seal_shares(self, number: int, random_bytes: RandomBytes) -> Sealed:
        """Shares of the client's drop key and of its seed, in one box for each holder, and the
        digests of both; the roots of its pair masks, wrapped, with their tags."""
        party, place = self.parties[number], self.places[number]
        holders, clients = self.graph.holders(place), self.clients
        points = [holder + 1 for holder in holders]
        threshold = self.graph.parameters.threshold
        of_key = shamir.split(party.drop_key, points, threshold, random_bytes)
        of_seed = shamir.split(party.seed, points, threshold, random_bytes)
        drop_root = derive.session_root(party.drop_key, self.id)
        made = Sealed([], [], [])
        for holder, key_share, seed_share in zip(holders, of_key, of_seed, strict=True):
            root = self._roots.boxes[ordered(place, holder)]
            both = key_share.encode() + seed_share.encode()
            box = boxes.seal(root, self.id, place, holder, both, random_bytes)
            digests = self._digests(place, key_share, seed_share)
            made.boxes.append(box)
            made.digests.append(digests)
            made.wrapped.append(self._wrapped(drop_root, place, holder))
            if clients[holder] in self.parties:
                self._at_home[place, holder] = (box, digests, key_share, seed_share)
        return made

    def _wrapped(self, drop_root: Secret, place: int, peer: int) -> bytes:
        if peer == place:
            return bytes(WRAPPED_BYTES)
        pair = ordered(place, peer)
        root = self._roots.masks[pair]
        wrapped = derive.wrapped_root(root, drop_root, place, peer)
        if pair not in self._tags:  # both ends may be of this host
            self._tags[pair] = derive.pair_tag(root, *pair)
        return wrapped + self._tags[pair]

    def _digests(self, owner: int, key_share: Share, seed_share: Share) -> bytes:
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
        for sender, box, said in senders:
            bad.append(0)
            if clients[sender] not in sharers:
                continue
            shares = self._opened(sender, place, box, said)
            if shares is None:
                bad[-1] = 1
            else:
                party.held_key[sender], party.held_seed[sender] = shares
        return bad

    def _opened(
        self, sender: int, place: int, box: bytes, said: bytes
    ) -> tuple[Share, Share] | None:
        """The two shares in a box, unless they are not what their sender said. A box that this host
        sealed itself, to the bit, holds what it put there."""
        known = self._at_home.get((sender, place))
        if known is not None and known[:2] == (box, said):
            return known[2:]
        try:
            root = self._roots.boxes[ordered(sender, place)]
            both = boxes.open_box(root, self.id, sender, place, box)
            of_key = Share.decode(place + 1, both[:SHARE_BYTES])
            of_seed = Share.decode(place + 1, both[SHARE_BYTES:])
        except (BadBox, BadShares):
            return None
        return (of_key, of_seed) if self._digests(sender, of_key, of_seed) == said else None

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
                root = self._roots.masks[ordered(place, peer)]
                key = derive.pair_mask_key(root, place, peer, context)
                rows = (row, row_of.get(peer))
                masks.append(RowMask(key, *(rows if place < peer else rows[::-1])))
        return masks
