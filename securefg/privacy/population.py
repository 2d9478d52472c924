"""The population: the public numbers that an epsilon stands beside."""

from __future__ import annotations

from dataclasses import dataclass

from securefg.settings.privacy import Unit


@dataclass(frozen=True)
class Population:
    """Who there is, and how many clients one node can be with.

    node_holders  the largest number of clients that hold one node, or one edge; None where it is
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
        """How many clients one unit can be with."""
        known = {"node": self.node_holders, "edge": self.edge_holders}
        if unit not in known:
            return 1
        found = known[unit]
        return self.num_clients if found is None else found

    def count(self, unit: Unit) -> int | None:
        """How many such units there are, where that is known."""
        counts = {"client": self.num_clients, "node": self.num_nodes, "edge": self.num_edges}
        return counts.get(unit)
