"""Random walks over a graph, all of them stepped together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Nodes = NDArray[np.int64]


@dataclass(frozen=True)
class Neighbours:
    """Every node's neighbours, node after node (CSR): node v has neighbours[offsets[v] : ...]."""

    offsets: Nodes
    neighbours: Nodes

    @classmethod
    def of(cls, edge_index: Tensor, num_nodes: int) -> Self:
        """From (2, E) edges sorted by source, as a `Graph` has them."""
        source, target = edge_index.cpu().numpy()
        counts = np.bincount(source, minlength=num_nodes)
        return cls(np.concatenate([[0], counts.cumsum()]), target)

    @property
    def degrees(self) -> Nodes:
        return np.diff(self.offsets)


def random_walks(
    graph: Neighbours, num_walks: int, length: int, stream: np.random.Generator
) -> Nodes:
    """(walks, length): `num_walks` uniform walks from every node that has a neighbour, shuffled.

    A node without neighbours has no walk: skip-gram learns from pairs, and it is in none.
    """
    degrees = graph.degrees
    starts = np.tile(np.flatnonzero(degrees), num_walks)
    walks = np.empty((len(starts), length), np.int64)
    walks[:, 0] = stream.permutation(starts)
    for step in range(1, length):
        at = walks[:, step - 1]
        choice = (stream.random(len(at)) * degrees[at]).astype(np.int64)
        walks[:, step] = graph.neighbours[graph.offsets[at] + choice]
    return walks
