"""What the clients of one host hold in a session, and make of it: boxes, masks, revealed shares.

Nothing is refused here: `client.py` decides what a server may ask for, and when.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from securefg.secagg import boxes, derive, shamir
from securefg.secagg.arrays import from_bytes, to_bytes
from securefg.secagg.derive import FreshContexts, MaskContext
from securefg.secagg.errors import BadBox, BadShares
from securefg.secagg.graph import MaskGraph
from securefg.secagg.keys import KeyPair
from securefg.secagg.masks import RowMask
from securefg.secagg.recipient_sums import Pads
from securefg.secagg.secret import RandomBytes, Secret
from securefg.secagg.shamir import SHARE_BYTES, Share

KEY, SEED = "key", "seed"
"""What a share is of."""


@dataclass
class Party:
    """One client's secrets in one session; `held_*` are its shares of others', by their place."""

    number: int
    mask_pair: KeyPair
    box_pair: KeyPair
    seed: Secret
    held_seed: dict[int, Share] = field(default_factory=dict, repr=False)
    held_key: dict[int, Share] = field(default_factory=dict, repr=False)
    box_roots: dict[int, Secret] = field(default_factory=dict, repr=False)

    @classmethod
    def fresh(cls, number: int, random_bytes: RandomBytes) -> Party:
        masks, boxes_, seed = (Secret.fresh(random_bytes) for _ in range(3))
        return cls(number, KeyPair(masks), KeyPair(boxes_), seed)


@dataclass
class Session:
    """What the clients of a host know of the session they are in; replaced by the next one.

    clients    everybody in the session, in the order of their places; known from `seat` on
    sharers    those of them whose shares were delivered
    survivors  those of the sharers whose masked replies arrived
    checked    places whose keys were found signed
    openers    the clients of this host that were told the survivors
    """

    round: int
    purpose: str
    parties: dict[int, Party]
    id: bytes = b""
    model_hash: bytes = b""
    clients: tuple[int, ...] = ()
    places: dict[int, int] = field(default_factory=dict)
    mask_keys: Mapping[int, bytes] = field(default_factory=dict)
    box_keys: Mapping[int, bytes] = field(default_factory=dict)
    signatures: Mapping[int, bytes] = field(default_factory=dict)
    checked: set[int] = field(default_factory=set)
    sharers: tuple[int, ...] = ()
    contexts: FreshContexts = field(default_factory=FreshContexts)
    agreed: tuple[int, ...] | None = None
    answered: bool = False
    unmasked: bool = False
    survivors: tuple[int, ...] = ()
    openers: tuple[int, ...] = ()
    _graph: MaskGraph | None = None
    _pads: Pads | None = None

    def seat(
        self,
        id: bytes,
        graph: MaskGraph,
        mask_keys: Mapping[int, bytes],
        box_keys: Mapping[int, bytes],
        signatures: Mapping[int, bytes],
    ) -> None:
        """Give everybody on the roster a place in the graph."""
        self.id, self._graph, self.signatures = id, graph, signatures
        self.clients, self.mask_keys, self.box_keys = tuple(mask_keys), mask_keys, box_keys
        self.places = {client: place for place, client in enumerate(self.clients)}
        own_pairs = {number: party.box_pair for number, party in self.parties.items()}
        self._pads = Pads(id, own_pairs, box_keys)

    @property
    def graph(self) -> MaskGraph:
        assert self._graph is not None, "nobody has a place before the roster"
        return self._graph

    @property
    def pads(self) -> Pads:
        assert self._pads is not None, "nobody has a place before the roster"
        return self._pads

    def fewest_around(self, clients: Collection[int], numbers: Collection[int]) -> int:
        """How many of `clients` are among a client's holders, at the one of `numbers` that has the
        fewest."""
        places = {self.places[n] for n in clients}
        return min(len(places & set(self.graph.holders(self.places[n]))) for n in numbers)

    # --------------------------------------------------------------------------- shares and boxes

    def seal_shares(
        self, number: int, random_bytes: RandomBytes
    ) -> tuple[list[bytes], list[bytes]]:
        """Shares of the client's mask key and of its seed, in one box for each holder; and the
        digests of both."""
        party, place = self.parties[number], self.places[number]
        holders = self.graph.holders(place)
        points = [holder + 1 for holder in holders]
        threshold = self.graph.parameters.threshold
        of_key = shamir.split(party.mask_pair.secret, points, threshold, random_bytes)
        of_seed = shamir.split(party.seed, points, threshold, random_bytes)
        sealed, digests = [], []
        for holder, key_share, seed_share in zip(holders, of_key, of_seed, strict=True):
            root = party.box_pair.agree(self.box_keys[self.clients[holder]], self.id)
            party.box_roots[holder] = root
            both = key_share.encode() + seed_share.encode()
            sealed.append(boxes.seal(root, self.id, place, holder, both, random_bytes))
            digests.append(self._digests(place, key_share, seed_share))
        return sealed, digests

    def _digests(self, owner: int, key_share: Share, seed_share: Share) -> bytes:
        return shamir.share_digest(key_share, self.id, owner, KEY) + shamir.share_digest(
            seed_share, self.id, owner, SEED
        )

    def open_boxes(self, number: int, rows: Tensor, digests: Tensor) -> list[int]:
        """Keep the shares that the sharers sealed for this client; 1 for every box that does not
        hold what its sender said."""
        party, place = self.parties[number], self.places[number]
        sharers, bad = set(self.sharers), []
        party.held_key, party.held_seed = {}, {}
        senders = zip(self.graph.holders(place), to_bytes(rows), to_bytes(digests), strict=True)
        for sender, box, said in senders:
            bad.append(0)
            if self.clients[sender] not in sharers:
                continue
            try:
                both = boxes.open_box(party.box_roots[sender], self.id, sender, place, box)
                of_key = Share.decode(place + 1, both[:SHARE_BYTES])
                of_seed = Share.decode(place + 1, both[SHARE_BYTES:])
            except (BadBox, BadShares):
                bad[-1] = 1
                continue
            if self._digests(sender, of_key, of_seed) != said:
                bad[-1] = 1
                continue
            party.held_key[sender], party.held_seed[sender] = of_key, of_seed
        return bad

    def shares_to_reveal(self, number: int, alive: set[int]) -> tuple[Tensor, Tensor]:
        """Of those alive the share of the seed, of all others that of the mask key; never both."""
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
        sharers, masks = set(self.sharers), []
        for place, row in row_of.items():
            party = self.parties[self.clients[place]]
            own = derive.self_mask_key(party.seed, self.id, place, context)
            masks.append(RowMask(own, row, None))
            for peer in self.graph.neighbours(place):
                client = self.clients[peer]
                if client not in sharers or (peer in row_of and peer < place):
                    continue  # a pair within this host is made once, by its lower end
                root = party.mask_pair.agree(self.mask_keys[client], self.id)
                key = derive.pair_mask_key(root, place, peer, context)
                rows = (row, row_of.get(peer))
                masks.append(RowMask(key, *(rows if place < peer else rows[::-1])))
        return masks
