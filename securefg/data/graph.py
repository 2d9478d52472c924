"""The graph a dataset is: features, edges, labels and the split, as immutable tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Split:
    """Boolean node masks; a node may be in none of them."""

    train: Tensor
    val: Tensor
    test: Tensor

    def __getitem__(self, nodes: Tensor) -> Split:
        return Split(self.train[nodes], self.val[nodes], self.test[nodes])


@dataclass(frozen=True)
class Graph:
    """A graph with node features and labels.

    features    (N, d) float32, or (N, S, d) where every node holds S samples
    edge_index  (2, E) int64; an undirected edge is listed in both directions; no self-loops, no
                duplicates, sorted by row then column
    labels      (N,) int64, or (N, S) where the samples are labelled apart
    split       which nodes train, validate and test
    """

    name: str
    features: Tensor
    edge_index: Tensor
    labels: Tensor
    split: Split
    num_classes: int
    directed: bool = False

    @property
    def num_nodes(self) -> int:
        return self.labels.shape[0]

    @property
    def num_features(self) -> int:
        return self.features.shape[-1]

    @property
    def num_edges(self) -> int:
        """Undirected edges are counted once, directed ones as they are."""
        entries = self.edge_index.shape[1]
        return entries if self.directed else entries // 2

    def subgraph(self, nodes: Tensor) -> Graph:
        """The induced subgraph on `nodes`, relabelled to 0..len(nodes)-1 in that order."""
        local = torch.full((self.num_nodes,), -1, dtype=torch.int64)
        local[nodes] = torch.arange(len(nodes))
        ends = local[self.edge_index]
        return Graph(
            name=self.name,
            features=self.features[nodes],
            edge_index=sorted_edges(ends[:, (ends >= 0).all(0)], len(nodes)),
            labels=self.labels[nodes],
            split=self.split[nodes],
            num_classes=self.num_classes,
            directed=self.directed,
        )


def sorted_edges(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Drop self-loops and duplicates; sort by row, then column."""
    source, target = edge_index
    keys = torch.unique((source * num_nodes + target)[source != target])
    return torch.stack([keys // num_nodes, keys % num_nodes])


def undirected(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Every edge in both directions, sorted and unique."""
    return sorted_edges(torch.cat([edge_index, edge_index.flip(0)], 1), num_nodes)
