"""GraphSAGE (Hamilton et al. 2017) with the mean aggregator, over all neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from securefg.data.graph import Graph
from securefg.models.network import Network, dropped
from securefg.models.sparse import SparseMatrix, feature_matrix


class GraphSage(Network):
    """h_i := W h_i + W' mean_{j in N(i)} h_j, twice, with ReLU between.

    The mean over no neighbours is zero. No neighbours are sampled: the graphs are small.
    """

    decayed = (True, True, True, True)

    def __init__(self, graph: Graph, hidden: int, device: torch.device) -> None:
        first, second = (graph.num_features, hidden), (hidden, graph.num_classes)
        self.shapes = (first, first, second, second)
        self._mean = mean_of_neighbours(graph).to(device)
        self._features = feature_matrix(graph.features).to(device)

    def logits(
        self,
        weights: Sequence[Tensor],
        dropout: float = 0.0,
        stream: torch.Generator | None = None,
    ) -> Tensor:
        own0, others0, own1, others1 = weights
        values = dropped(self._features.values, dropout, stream)
        both = self._features.matmul(torch.cat([own0, others0], 1), values)
        own, others = both.chunk(2, 1)
        hidden = torch.relu(own + self._mean @ others.contiguous())
        hidden = dropped(hidden, dropout, stream)
        return hidden @ own1 + self._mean @ (hidden @ others1)


def mean_of_neighbours(graph: Graph) -> SparseMatrix:
    """D^-1 A."""
    row, column = graph.edge_index
    degree = torch.bincount(row, minlength=graph.num_nodes)
    size = (graph.num_nodes, graph.num_nodes)
    return SparseMatrix.from_entries(row, column, 1 / degree[row].float(), size)
