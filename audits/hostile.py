"""Hostile persons: nodes and links that are put into a run's own shard to move its message far.

The person is linked to fresh neighbours, who may share helpers, or have leaves of their own two
hops away, or is linked to the shard's hubs. All of them train, and may be copies of one another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from torch import Tensor

from securefg.data.graph import Split, undirected
from securefg.data.shard import Shard

HELPERS: Final = (1, 2, 3, 5, 7, 11, 15, 23, 31, 47)
LEAVES: Final = (10, 60)
CROWD: Final = 400
"""So many leaves has the one neighbour of a person that is linked to a hub of its own."""
LENGTHS: Final = (0.0, 1e-6, 1e6)
"""By how much a person's features are made longer: a method must bound features of any length."""
ROWS: Final = 6
"""So many persons of the shard lend their features."""


@dataclass(frozen=True)
class Hostile:
    """A person and those around it.

    features, label  of the person and of all its copies
    links      neighbours that are put in with the person
    helpers    nodes that all these neighbours are linked to
    leaves     further nodes that every neighbour has for itself, two hops away from the person
    alike      whether those around are copies (otherwise they have the opposite features, and
               another label)
    hubs       links to the shard's nodes with the most links
    repeats    how often every link of the person is listed
    """

    features: Tensor
    label: int
    links: int
    helpers: int = 0
    leaves: int = 0
    alike: bool = True
    hubs: int = 0
    repeats: int = 1

    @property
    def words(self) -> str:
        """Return what the inserted node has, for the finding."""
        parts = {
            "links": self.links + self.hubs,
            "shared helpers": self.helpers,
            "leaves two hops away": self.leaves,
            "links to hubs": self.hubs,
        }
        said = [f"{count} {name}" for name, count in parts.items() if count]
        if self.repeats > 1:
            said.append(f"links listed {self.repeats} times")
        return "an inserted person with " + (", ".join(said) or "no links")

    def put_into(self, shard: Shard) -> tuple[Shard, int]:
        """Return the shard with the person and those around it, and the person's place in it."""
        graph, first = shard.graph, shard.graph.num_nodes
        person, count = first, 1 + self.links + self.helpers + self.links * self.leaves
        neighbours = range(person + 1, person + 1 + self.links)
        helpers = range(neighbours.stop, neighbours.stop + self.helpers)
        edges = [(u, h) for u in neighbours for h in helpers]
        leaf = helpers.stop
        for u in neighbours:
            edges += [(u, leaf + i) for i in range(self.leaves)]
            leaf += self.leaves
        own = [(person, u) for u in neighbours] + [(person, v) for v in self._find_hubs(shard)]
        whole = undirected(_edge_tensor([*edges, *own]), first + count)
        listed = [graph.edge_index, whole, *[_both_directions(own)] * (self.repeats - 1)]
        rows = self.features.expand(count, -1).clone()
        labels = torch.full((count,), self.label)
        if not self.alike:
            rows[1:], labels[1:] = -rows[1:], (self.label + 1) % graph.num_classes
        trains = torch.ones(count, dtype=torch.bool)
        split = graph.split
        features = graph.edge_features
        if features is not None:
            more = sum(part.shape[1] for part in listed[1:])
            features = torch.cat([features, features.new_zeros(more, features.shape[1])])
        joined = replace(
            graph,
            edge_features=features,
            features=torch.cat([graph.features, rows.to(graph.features.dtype)]),
            labels=torch.cat([graph.labels, labels.to(graph.labels.dtype)]),
            edge_index=torch.cat(listed, 1),
            split=Split(
                torch.cat([split.train, trains]),
                torch.cat([split.val, ~trains]),
                torch.cat([split.test, ~trains]),
            ),
        )
        ids = torch.cat([shard.node_ids, _unused_ids(shard.node_ids, count)])
        return replace(shard, node_ids=ids, graph=joined), person

    def _find_hubs(self, shard: Shard) -> list[int]:
        if not self.hubs:
            return []
        degrees = torch.bincount(shard.graph.edge_index[0], minlength=shard.graph.num_nodes)
        return degrees.argsort(descending=True)[: self.hubs].tolist()


def first_tries(shard: Shard, links: int, rng: np.random.Generator) -> Iterator[Hostile]:
    """Yield persons of the shard whose likes are put in, each with plain neighbours."""
    graph = shard.graph
    if graph.features.dim() != 2 or graph.labels.dim() != 1:
        return
    rows = rng.choice(graph.num_nodes, min(ROWS, graph.num_nodes), replace=False)
    for node in rows.tolist():
        label = max(0, int(graph.labels[node]))
        yield Hostile(graph.features[node], label, links)
    spike = torch.zeros_like(graph.features[0])
    spike[int(rng.integers(len(spike)))] = 1.0
    yield Hostile(spike, 0, links)
    for length in LENGTHS:
        node = int(rows[0])
        yield Hostile(graph.features[node] * length, max(0, int(graph.labels[node])), links)


def further_tries(best: Hostile, shard: Shard, links: int) -> Iterator[Hostile]:
    """Yield variants of the person that moved furthest: with helpers, leaves, hubs, other numbers
    of links."""
    most = min(max(links, 1), shard.graph.num_nodes)
    around = max(best.links, 1)
    yield replace(best, alike=False)
    for helpers in HELPERS:
        yield replace(best, links=around, helpers=helpers)
        yield replace(best, links=around, helpers=helpers, alike=False)
    for leaves in LEAVES:
        yield replace(best, links=around, leaves=leaves)
    yield replace(best, links=1, leaves=CROWD)
    yield replace(best, links=0, hubs=most)
    yield replace(best, repeats=30)
    for other in (0, 1, 2 * around, 4 * around):
        yield replace(best, links=other)


def _unused_ids(ids: Tensor, count: int) -> Tensor:
    """Return the lowest numbers that no node of the shard has."""
    free = torch.ones(len(ids) + count, dtype=torch.bool)
    free[ids[ids < len(free)]] = False
    return free.nonzero().flatten()[:count].to(ids.dtype)


def _edge_tensor(edges: Sequence[tuple[int, int]]) -> Tensor:
    return torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T


def _both_directions(edges: Sequence[tuple[int, int]]) -> Tensor:
    pairs = _edge_tensor(edges)
    return torch.cat([pairs, pairs.flip(0)], 1)
