"""The GCN as a network of the baselines."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from securefg.data.graph import Graph
from securefg.models.gcn import gcn, gcn_inputs
from securefg.models.mlp import mlp_shapes
from securefg.models.network import Network


class Gcn(Network):
    """A_hat ReLU(A_hat X W0) W1; L2 regularisation on the first layer, as in the GCN paper."""

    decayed = (True, False)

    def __init__(self, graph: Graph, hidden: int, device: torch.device) -> None:
        self.shapes = mlp_shapes(graph.num_features, hidden, graph.num_classes)
        _, self._adjacency, self._features = gcn_inputs(graph, hidden, device)

    def logits(
        self,
        weights: Sequence[Tensor],
        dropout: float = 0.0,
        stream: torch.Generator | None = None,
    ) -> Tensor:
        return gcn(weights, self._adjacency, self._features, dropout, stream)[1]
