"""The graph a dataset is: features, edges, labels and the split, as immutable tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from securefg.foundation.errors import DataError


@dataclass(frozen=True)
class Split:
    """Boolean masks over the nodes, (N,), or over the samples of every node, (N, S).

    A node (or sample) may be in none of them.
    """

    train: Tensor
    val: Tensor
    test: Tensor

    def __getitem__(self, nodes: Tensor) -> Split:
        return Split(self.train[nodes], self.val[nodes], self.test[nodes])

    def to(self, device: torch.device | str) -> Split:
        """The masks on another device."""
        return Split(self.train.to(device), self.val.to(device), self.test.to(device))

    @property
    def sizes(self) -> tuple[int, int, int]:
        """How many nodes (or samples) train, validate and test."""
        return int(self.train.sum()), int(self.val.sum()), int(self.test.sum())


@dataclass(frozen=True)
class Graph:
    """A graph with node features and labels.

    features    (N, d) float32, or (N, S, d) where every node holds S samples
    edge_index  (2, E) int64; an undirected edge is listed in both directions; no self-loops, no
                duplicates, sorted by row then column
    labels      (N,) int64, or (N, S) where the samples are labelled apart; -1 is a node without a
                label, which is in no part of the split
    split       which nodes (or samples, where those are labelled apart) train, validate and test
    edge_features  (E, k) float32 in the order of edge_index, where edges have numbers of their own;
                those of (a, b) may differ from those of (b, a)
    owners      (N,): the client that holds each node, where the data come so dealt out, or (N, K),
                true where a client holds a node; never in a shard
    """

    name: str
    features: Tensor
    edge_index: Tensor
    labels: Tensor
    split: Split
    num_classes: int
    directed: bool = False
    owners: Tensor | None = None
    edge_features: Tensor | None = None

    def __post_init__(self) -> None:
        found = self.edge_features
        if found is not None and len(found) != self.edge_index.shape[1]:
            raise DataError(
                f"{self.name}: found features of {len(found)} edges; expected those of "
                f"{self.edge_index.shape[1]}"
            )

    @property
    def num_edge_features(self) -> int:
        """k, or 0 where edges have no numbers."""
        return 0 if self.edge_features is None else self.edge_features.shape[1]

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.labels.shape[0]

    @property
    def num_features(self) -> int:
        """d."""
        return self.features.shape[-1]

    @property
    def num_edges(self) -> int:
        """Undirected edges are counted once, directed ones as they are."""
        entries = self.edge_index.shape[1]
        return entries if self.directed else entries // 2

    def to(self, device: torch.device | str) -> Graph:
        """The graph on another device."""
        return replace(
            self,
            features=self.features.to(device),
            edge_index=self.edge_index.to(device),
            labels=self.labels.to(device),
            split=self.split.to(device),
            edge_features=None if self.edge_features is None else self.edge_features.to(device),
        )

    def keep_edges(self, kept: Tensor) -> Graph:
        """The same nodes with these columns of edge_index alone, and their features."""
        features = None if self.edge_features is None else self.edge_features[kept]
        return replace(self, edge_index=self.edge_index[:, kept], edge_features=features)

    def with_edges(self, edge_index: Tensor) -> Graph:
        """The same nodes with other edges. An edge that was not there has zeros as its features."""
        if self.edge_features is None:
            return replace(self, edge_index=edge_index)
        size = self.num_nodes
        known, asked = (e[0] * size + e[1] for e in (self.edge_index, edge_index))
        order = known.argsort()
        place = torch.searchsorted(known[order], asked).clamp_max(max(len(known) - 1, 0))
        rows = self.edge_features.new_zeros(len(asked), self.num_edge_features)
        if len(known):
            found = known[order][place] == asked
            rows[found] = self.edge_features[order][place[found]]
        return replace(self, edge_index=edge_index, edge_features=rows)

    def subgraph(self, nodes: Tensor) -> Graph:
        """The induced subgraph on `nodes`, relabelled to 0..len(nodes)-1 in that order."""
        local = self.edge_index.new_full((self.num_nodes,), -1)
        local[nodes] = torch.arange(len(nodes), device=local.device)
        ends = local[self.edge_index]
        kept = (ends >= 0).all(0).nonzero().flatten()
        order = kept[(ends[0, kept] * len(nodes) + ends[1, kept]).argsort()]
        return replace(
            self,
            features=self.features[nodes],
            edge_index=ends[:, order],
            edge_features=None if self.edge_features is None else self.edge_features[order],
            labels=self.labels[nodes],
            split=self.split[nodes],
            owners=None if self.owners is None else self.owners[nodes],
        )


def sorted_edges(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Drop self-loops and duplicates; sort by row, then column."""
    source, target = edge_index
    keys = torch.unique((source * num_nodes + target)[source != target])
    return torch.stack([keys // num_nodes, keys % num_nodes])


def both_ways(
    edge_index: Tensor, features: Tensor, mirrored: Tensor, num_nodes: int
) -> tuple[Tensor, Tensor]:
    """Every edge in both directions, sorted and unique, with its features.

    mirrored  for every feature, which one is it seen from the other end: of an amount that goes
              out, the amount that comes in
    """
    ends = torch.cat([edge_index, edge_index.flip(0)], 1)
    both = torch.cat([features, features[:, mirrored]])
    apart = (ends[0] != ends[1]).nonzero().flatten()
    keys = ends[0, apart] * num_nodes + ends[1, apart]
    order = keys.argsort(stable=True)  # an edge that is listed both ways keeps what was listed
    first = torch.ones_like(order, dtype=torch.bool)
    first[1:] = keys[order][1:] != keys[order][:-1]
    chosen = apart[order[first]]
    return ends[:, chosen], both[chosen]


def undirected(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Every edge in both directions, sorted and unique."""
    return sorted_edges(torch.cat([edge_index, edge_index.flip(0)], 1), num_nodes)
