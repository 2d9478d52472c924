"""A two-layer GAT whose hidden layer is pulled towards given rows at the public nodes.

    L = CE + beta * mean over public nodes of (1 - cos(h_u, x'_u))

with h the first layer's output (PPFL-GNN, Algorithm 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy, elu

from securefg.data.graph import Graph
from securefg.models.gat import attend, with_loops
from securefg.models.network import Shapes, dropped, glorot, split
from securefg.models.sparse import feature_matrix
from securefg.models.training import Trained


@dataclass(frozen=True)
class Pull:
    """Rows that the hidden layer is to resemble, and how much that counts."""

    nodes: Tensor
    rows: Tensor
    beta: float


class PublicGat:
    """Heads side by side, `hidden` units in all, ELU, then one head that gives the scores."""

    def __init__(self, graph: Graph, hidden: int, heads: int, device: torch.device) -> None:
        self._heads, units, classes = heads, hidden // heads, graph.num_classes
        first = ((graph.num_features, hidden), (heads, units), (heads, units))
        self.shapes: Shapes = (*first, (hidden, classes), (1, classes), (1, classes))
        self._loops = with_loops(graph.edge_index[:, :0], graph.num_nodes).to(device)
        self._edges = with_loops(graph.edge_index, graph.num_nodes).to(device)
        self._features = feature_matrix(graph.features).to(device)

    def initial(self, stream: torch.Generator) -> tuple[Tensor, ...]:
        return split(glorot(self.shapes, stream), self.shapes)

    def hidden(
        self,
        weights: Sequence[Tensor],
        dropout: float = 0.0,
        stream: torch.Generator | None = None,
        edges: Tensor | None = None,
    ) -> Tensor:
        """The first layer's output."""
        first, target, source, *_ = weights
        values = dropped(self._features.values, dropout, stream)
        latents = self._features.matmul(first, values)
        latents = latents.view(len(latents), self._heads, -1)
        ends = self._edges if edges is None else edges
        return elu(attend(latents, target, source, ends, dropout, stream).flatten(1))

    def hidden_without_edges(self, weights: Sequence[Tensor]) -> Tensor:
        """What every client that holds a node makes of it, whatever its edges are."""
        return self.hidden(weights, edges=self._loops)

    def logits(
        self,
        hidden: Tensor,
        weights: Sequence[Tensor],
        dropout: float = 0.0,
        stream: torch.Generator | None = None,
    ) -> Tensor:
        *_, second, target, source = weights
        latents = (dropped(hidden, dropout, stream) @ second).unsqueeze(1)
        return attend(latents, target, source, self._edges, dropout, stream).squeeze(1)


class PublicGatTrainer(Trained):
    """A network's weights under Adam, both kept from call to call."""

    def __init__(
        self, network: PublicGat, weights: Sequence[Tensor], lr: float, weight_decay: float
    ) -> None:
        self._network = network
        vector = torch.cat([w.flatten() for w in weights])
        super().__init__(vector, network.shapes, [weight_decay] * len(weights), lr)

    def train(
        self,
        epochs: int,
        nodes: Tensor,
        classes: Tensor,
        pull: Pull | None,
        dropout: float,
        stream: torch.Generator,
    ) -> None:
        """Full-batch epochs; a client without labels only follows the pull."""
        for _ in range(epochs if len(nodes) or pull else 0):
            hidden = self._network.hidden(self.weights, dropout, stream)
            logits = self._network.logits(hidden, self.weights, dropout, stream)
            loss = cross_entropy(logits[nodes], classes) if len(nodes) else logits.sum() * 0
            if pull is not None:
                loss = loss + pull.beta * _distance(hidden[pull.nodes], pull.rows)
            self._optimizer.step(torch.autograd.grad(loss, self.weights))


def _distance(rows: Tensor, towards: Tensor) -> Tensor:
    return (1 - cosine_similarity(rows, towards, dim=1)).mean()
