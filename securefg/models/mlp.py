"""The two-layer perceptron without bias: one, or as many as there are clients, as one tensor."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from securefg.data.graph import Graph
from securefg.models.network import Network, Shapes, Stream, Weights, dropped
from securefg.models.sparse import feature_matrix


def mlp(weights: Sequence[Tensor], inputs: Tensor) -> Tensor:
    """ReLU(X W0) W1; with a leading axis on all of them, every client's own."""
    first, second = weights
    logits: Tensor = torch.relu(inputs @ first) @ second
    return logits


def mlp_shapes(num_features: int, hidden: int, num_classes: int) -> Shapes:
    return (num_features, hidden), (hidden, num_classes)


class Mlp(Network):
    """Classifies every node by its features alone: what the graph adds is the others' gain."""

    decayed = (True, False)

    def __init__(self, graph: Graph, hidden: int, device: torch.device) -> None:
        self.shapes = mlp_shapes(graph.num_features, hidden, graph.num_classes)
        self._features = feature_matrix(graph.features).to(device)

    def logits(self, weights: Weights, dropout: float = 0.0, stream: Stream = None) -> Tensor:
        first, second = weights
        values = dropped(self._features.values, dropout, stream)
        hidden = torch.relu(self._features.matmul(first, values))
        hidden = dropped(hidden, dropout, stream)
        return hidden @ second
