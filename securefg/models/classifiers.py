"""The perceptron, GCN, APPNP and GraphSAGE as networks that are bound to a graph.

torch-geometric's layers give the same scores to 1e-7 and take 5 to 16 times the CPU time of a
training step on Cora, whose features are sparse (`benchmarks/networks.py`). They also draw dropout
from the global generator instead of a named stream.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from securefg.data.graph import Graph
from securefg.models.appnp import propagate_hidden
from securefg.models.gcn import gcn_inputs, normalized_adjacency, run_gcn
from securefg.models.network import Network, Shapes, Stream, Weights, drop_values
from securefg.models.sparse import SparseMatrix, feature_matrix


def run_mlp(weights: Sequence[Tensor], inputs: Tensor) -> Tensor:
    """Return ReLU(X W0) W1. With a leading axis on all of them, every client's own."""
    first, second = weights
    logits: Tensor = torch.relu(inputs @ first) @ second
    return logits


def mlp_shapes(num_features: int, hidden: int, num_classes: int) -> Shapes:
    """Return the shapes of W0 and W1."""
    return (num_features, hidden), (hidden, num_classes)


class Mlp(Network):
    """A network that classifies every node by its features alone. The graph's gain shows beside
    it."""

    decayed = (True, False)

    def __init__(self, graph: Graph, hidden: int, device: torch.device) -> None:
        self.shapes = mlp_shapes(graph.num_features, hidden, graph.num_classes)
        self._features = feature_matrix(graph.features).to(device)

    def logits(self, weights: Weights, dropout: float = 0.0, stream: Stream = None) -> Tensor:
        """Return ReLU(X W0) W1."""
        first, second = weights
        values = drop_values(self._features.values, dropout, stream)
        hidden = torch.relu(self._features.matmul(first, values))
        hidden = drop_values(hidden, dropout, stream)
        return hidden @ second


class Gcn(Network):
    """A GCN: A_hat ReLU(A_hat X W0) W1. L2 regularisation acts on the first layer, as in the GCN
    paper."""

    decayed = (True, False)

    def __init__(self, graph: Graph, hidden: int, device: torch.device) -> None:
        self.shapes = mlp_shapes(graph.num_features, hidden, graph.num_classes)
        _, self._adjacency, self._features = gcn_inputs(graph, hidden, device)

    def logits(self, weights: Weights, dropout: float = 0.0, stream: Stream = None) -> Tensor:
        """Return A_hat ReLU(A_hat X W0) W1."""
        return run_gcn(weights, self._adjacency, self._features, dropout, stream)[1]


class Appnp(Network):
    """An APPNP: A_tilde ReLU(X W0) W1. Dropout acts on the perceptron alone."""

    decayed = Mlp.decayed

    def __init__(
        self, graph: Graph, hidden: int, teleport: float, steps: int, device: torch.device
    ) -> None:
        self._mlp = Mlp(graph, hidden, device)
        self.shapes = self._mlp.shapes
        self._adjacency = normalized_adjacency(graph.edge_index, graph.num_nodes).to(device)
        self._teleport, self._steps = teleport, steps

    def logits(self, weights: Weights, dropout: float = 0.0, stream: Stream = None) -> Tensor:
        """Return A_tilde ReLU(X W0) W1."""
        hidden = self._mlp.logits(weights, dropout, stream)
        return propagate_hidden(self._adjacency, hidden, self._teleport, self._steps)


class GraphSage(Network):
    """A GraphSAGE: h_i := W h_i + W' mean_{j in N(i)} h_j, twice, with ReLU between.

    The mean over no neighbours is zero. No neighbours are sampled: the graphs are small.
    """

    decayed = (True, True, True, True)

    def __init__(self, graph: Graph, hidden: int, device: torch.device) -> None:
        first, second = (graph.num_features, hidden), (hidden, graph.num_classes)
        self.shapes = (first, first, second, second)
        self._mean = mean_of_neighbours(graph).to(device)
        self._features = feature_matrix(graph.features).to(device)

    def logits(self, weights: Weights, dropout: float = 0.0, stream: Stream = None) -> Tensor:
        """Return class scores of every node, (N, C)."""
        own0, others0, own1, others1 = weights
        values = drop_values(self._features.values, dropout, stream)
        both = self._features.matmul(torch.cat([own0, others0], 1), values)
        own, others = both.chunk(2, 1)
        hidden = torch.relu(own + self._mean @ others.contiguous())
        hidden = drop_values(hidden, dropout, stream)
        return hidden @ own1 + self._mean @ (hidden @ others1)


def mean_of_neighbours(graph: Graph) -> SparseMatrix:
    """Return D^-1 A."""
    row, column = graph.edge_index
    degree = torch.bincount(row, minlength=graph.num_nodes)
    size = (graph.num_nodes, graph.num_nodes)
    return SparseMatrix.from_entries(row, column, 1 / degree[row].float(), size)
