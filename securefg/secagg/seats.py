"""A set-up of masking keys for many sessions, at the clients of a host and at the server.

`Seats` is the clients' side: who sits where, and pair secrets. `Setup` is the server's side: the
roster, the graph, and how long they last.

Two clients that are neighbours agree on a chain c_0, c_1, … once, and every session takes the next
link: its root is HMAC(session id, c_i), and c_(i+1) = HKDF-Expand(c_i) replaces c_i at once. A root
says nothing of other sessions' roots, and a host that is broken into shows no earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from securefg.protocol.messages import Message
from securefg.secagg.derive import next_link, session_root
from securefg.secagg.graph import MaskGraph
from securefg.secagg.hybrid import Suite
from securefg.secagg.links import Chains, KeyPairs, Linking
from securefg.secagg.messages import Roster

SESSIONS: Final = 32
"""So many sessions may one set-up serve; then keys, graph and chains are made anew."""


@dataclass(frozen=True)
class Roots:
    """The pair secrets of one session: of masks by the two places in ascending order, of boxes by
    sender and receiver."""

    masks: Chains = field(default_factory=dict, repr=False)
    boxes: Chains = field(default_factory=dict, repr=False)


@dataclass
class Seats:
    """Everybody on the roster has a place in the graph.

    clients    in the order of their places
    checked    places whose keys were found signed
    ordinal    how many sessions have begun
    linking    this host's key pairs, until the first upload
    is_linked  whether the ciphertexts of the others arrived
    """

    id: bytes
    graph: MaskGraph
    clients: tuple[int, ...]
    mask_keys: Mapping[int, bytes]
    box_keys: Mapping[int, bytes]
    signatures: Mapping[int, bytes]
    suite: Suite
    with_pads: bool = False
    checked: set[int] = field(default_factory=set)
    ordinal: int = 0
    own: frozenset[int] = frozenset()
    linking: Linking | None = field(default=None, repr=False)
    is_linked: bool = False
    _masks: Chains = field(default_factory=dict, repr=False)
    _boxes: Chains = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.places = {client: place for place, client in enumerate(self.clients)}

    def start_linking(self, pairs: Mapping[int, KeyPairs]) -> None:
        """Take the key pairs of this host's clients, to make links with those whose keys were
        checked."""
        self.own = frozenset(pairs)
        self.linking = Linking(
            self.id,
            self.suite,
            self.graph,
            {self.places[client]: pair for client, pair in pairs.items()},
            [self.mask_keys[client] for client in self.clients],
            [self.box_keys[client] for client in self.clients],
            self.with_pads,
        )

    def forget_keys(self) -> None:
        """Erase the key pairs: from now on nothing can be opened, nor an earlier link be made."""
        self.linking = None

    def add_links(self, masks: Chains, boxes: Chains, session: bytes, roots: Roots) -> None:
        """Begin chains in the first session: it takes the first links, and the next are kept."""
        for chains, kept, taken in (
            (masks, self._masks, roots.masks),
            (boxes, self._boxes, roots.boxes),
        ):
            for pair, link in chains.items():
                if pair not in kept:
                    taken[pair], kept[pair] = session_root(link, session), next_link(link)

    def session_roots(self, ordinal: int, session: bytes) -> Roots:
        """The roots of a session; the links that they were made of, and all before, are gone."""
        while self.ordinal < ordinal:
            self._advance_chains()
        roots = Roots(_salt_chains(self._masks, session), _salt_chains(self._boxes, session))
        self._advance_chains()
        return roots

    def _advance_chains(self) -> None:
        self._masks = {pair: next_link(link) for pair, link in self._masks.items()}
        self._boxes = {pair: next_link(link) for pair, link in self._boxes.items()}
        self.ordinal += 1


def _salt_chains(chains: Chains, session: bytes) -> Chains:
    return {pair: session_root(link, session) for pair, link in chains.items()}


PATIENCE: Final = 8
"""Of a large cohort somebody is always away: those wait so many sessions for the next set-up."""


@dataclass
class Setup:
    """A roster and its graph, for several sessions.

    asked     who was asked to advertise keys; `members` did
    linked    the members whose ciphertexts were delivered: others have no links
    ordinal   which session of it is the last that began
    """

    roster: Roster
    graph: MaskGraph
    asked: tuple[int, ...]
    ordinal: int = 0
    someone_away: bool = False

    def __post_init__(self) -> None:
        self.members: list[int] = self.roster.clients.tolist()
        self.linked: list[int] = self.members

    def can_serve(self, asked: tuple[int, ...], reply: type[Message]) -> bool:
        """Whether another session of it will do. Sums for recipients take fresh box keys."""
        away = self.someone_away or len(self.members) < len(self.asked)
        patience = 1 if self.graph.parameters.complete else PATIENCE
        most = patience if away else SESSIONS
        return asked == self.asked and self.ordinal + 1 < most and not has_pads(reply)


def has_pads(reply: type[Message]) -> bool:
    """Whether parts of a reply are for single recipients, under pads."""
    return any(d.scope == "recipients" for d in reply.declarations.values())
