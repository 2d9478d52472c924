"""Influence: how far one node, or one edge, moves what its holders send.

A node is its features, its label and its links, wherever it is held. An edge is both of its ends'
knowledge of it. A method declares, for every release it plans, what one of them moves in ONE
holder's message. If it declares nothing, that is the whole message. Over all holders the moves add
up: noise that every holder draws for itself is met once per holder, so h of them compose. Noise
that only the sum carries meets h moves in one vector.

`Population` holds the public numbers that an epsilon stands beside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from securefg.settings.privacy import Unit


@dataclass(frozen=True)
class Influence:
    """A bound on what one node, or one edge, moves of one holder's message.

    rows    how many rows (samples, where the noise is in the training) it can change; 0 for
            nothing, None for all of them
    moved   where the method proves it: the L2 distance, in the value's own units, by which the
            message moves when a node with at most k links is removed (or one edge); grows with k
    links   the k for which the claim is made and noise is sized
    own_row   for messages with a row per node of the federation: the numbers of one row, where
              `moved` leaves the node's own row out, as GAP does
    stricter  the distance with the own row
    left_out  what `moved` leaves out, in words
    """

    rows: int | None = None
    moved: Callable[[int], float] | None = None
    links: int = 0
    own_row: int | None = None
    stricter: Callable[[int], float] | None = None
    left_out: str = ""

    @property
    def moved_l2(self) -> float | None:
        """Return the distance for which the claim is made, or None if the method proves none."""
        return None if self.moved is None else self.moved(self.links)


@dataclass(frozen=True)
class Fixed:
    """A function that gives the same distance for any number of links."""

    distance: float

    def __call__(self, links: int) -> float:
        return self.distance


WHOLE_MESSAGE: Final = Influence()
NOTHING: Final = Influence(rows=0)


@dataclass(frozen=True)
class Population:
    """A count of all units, and of how many clients one node can be with.

    node_holders  the largest number of clients that hold one node, or one edge, or None where it is
    edge_holders  not known: then it may be all of them
    given         what the server is given of the data before the run, in words
    """

    num_clients: int
    num_nodes: int | None = None
    num_edges: int | None = None
    node_holders: int | None = None
    edge_holders: int | None = None
    given: tuple[str, ...] = ()

    def holders(self, unit: Unit) -> int:
        """Return how many clients one unit can be with."""
        known = {
            "node": self.node_holders,
            "edge": self.edge_holders,
            "features": self.node_holders,
        }
        if unit not in known:
            return 1
        found = known[unit]
        return self.num_clients if found is None else found

    def count(self, unit: Unit) -> int | None:
        """Return how many of these units there are, or None if that is not known."""
        counts = {
            "client": self.num_clients,
            "node": self.num_nodes,
            "edge": self.num_edges,
            "features": self.num_nodes,
        }
        return counts.get(unit)
