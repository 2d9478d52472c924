"""APPNP as a network of the baselines: a perceptron's scores, propagated."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from securefg.data.graph import Graph
from securefg.models.appnp import propagate
from securefg.models.gcn import normalized_adjacency
from securefg.models.mlp import Mlp
from securefg.models.network import Network


class Appnp(Network):
    """A_tilde ReLU(X W0) W1; dropout acts on the perceptron alone."""

    decayed = Mlp.decayed

    def __init__(
        self, graph: Graph, hidden: int, teleport: float, steps: int, device: torch.device
    ) -> None:
        self._mlp = Mlp(graph, hidden, device)
        self.shapes = self._mlp.shapes
        self._adjacency = normalized_adjacency(graph.edge_index, graph.num_nodes).to(device)
        self._teleport, self._steps = teleport, steps

    def logits(
        self,
        weights: Sequence[Tensor],
        dropout: float = 0.0,
        stream: torch.Generator | None = None,
    ) -> Tensor:
        hidden = self._mlp.logits(weights, dropout, stream)
        return propagate(self._adjacency, hidden, self._teleport, self._steps)
