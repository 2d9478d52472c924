"""The graph attention network of Velickovic et al. (2018): heads side by side, then one head.

torch-geometric's GATConv gives the same scores to 1e-7 and takes 2.3 times the CPU time of a
training step on Cora (`benchmarks/networks.py`).

`PublicGatTrainer` pulls the hidden layer towards given rows at the public nodes:

    L = CE + beta * mean over public nodes of (1 - cos(h_u, x'_u))

with h the first layer's output (PPFL-GNN, Algorithm 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy, elu, leaky_relu

from securefg.data.graph import Graph
from securefg.models.network import Network, Stream, Weights, draw_glorot, drop_values, split_vector
from securefg.models.sparse import feature_matrix
from securefg.models.training import Trained

NEGATIVE_SLOPE = 0.2


class Gat(Network):
    """A GAT: `heads` heads of hidden / heads units, ELU, then one head that gives the class scores.

    With a linear readout that one head has `hidden` units, ELU follows, and a matrix gives the
    scores. Dropout acts on the layers' inputs and on the attention, as in the paper.
    """

    def __init__(
        self, graph: Graph, hidden: int, heads: int, linear_readout: bool, device: torch.device
    ) -> None:
        self._heads, classes = heads, graph.num_classes
        units, width = hidden // heads, hidden if linear_readout else classes
        first = ((graph.num_features, hidden), (heads, units), (heads, units))
        second = ((hidden, width), (1, width), (1, width))
        self.shapes = (*first, *second, *([(hidden, classes)] if linear_readout else []))
        self.decayed = (True,) * len(self.shapes)
        self._edges = with_loops(graph.edge_index, graph.num_nodes).to(device)
        self._features = feature_matrix(graph.features).to(device)

    def hidden(
        self,
        weights: Weights,
        dropout: float = 0.0,
        stream: Stream = None,
        edges: Tensor | None = None,
    ) -> Tensor:
        """Return the first layer's output, (N, hidden), over other edges where they are given."""
        first, target, source, *_ = weights
        values = drop_values(self._features.values, dropout, stream)
        latents = self._features.matmul(first, values)
        latents = latents.view(len(latents), self._heads, -1)
        ends = self._edges if edges is None else edges
        return elu(attend_neighbours(latents, target, source, ends, dropout, stream).flatten(1))

    def scores(
        self, hidden: Tensor, weights: Weights, dropout: float = 0.0, stream: Stream = None
    ) -> Tensor:
        """Return class scores of every node, (N, C), from the first layer's output."""
        second, target, source, *readout = weights[3:]
        latents = (drop_values(hidden, dropout, stream) @ second).unsqueeze(1)
        scores = attend_neighbours(latents, target, source, self._edges, dropout, stream).squeeze(1)
        for matrix in readout:
            scores = drop_values(elu(scores), dropout, stream) @ matrix
        return scores

    def logits(self, weights: Weights, dropout: float = 0.0, stream: Stream = None) -> Tensor:
        """Return class scores of every node, (N, C). Dropout acts when a stream is given."""
        return self.scores(self.hidden(weights, dropout, stream), weights, dropout, stream)


def attend_neighbours(
    latents: Tensor,
    target: Tensor,
    source: Tensor,
    edges: Tensor,
    dropout: float = 0.0,
    stream: torch.Generator | None = None,
) -> Tensor:
    """Return sum_j a_ij x_j per head, with a_ij = softmax_j LeakyReLU(target . x_i + source . x_j).

    latents         (N, heads, units)
    target, source  (heads, units): the two halves of the attention vector
    edges           (2, E): i and j of every pair, self-loops among them
    """
    to, since = edges
    pulls = (latents * target).sum(-1).index_select(0, to)
    raw = pulls + (latents * source).sum(-1).index_select(0, since)
    attention = softmax_within(leaky_relu(raw, NEGATIVE_SLOPE), to, len(latents))
    messages = drop_values(attention, dropout, stream).unsqueeze(-1) * latents.index_select(
        0, since
    )
    return torch.zeros_like(latents).index_add(0, to, messages)


def softmax_within(scores: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """Return exp(s_e) / sum over the edges e' of e's group of exp(s_e'), for every head."""
    index = group.unsqueeze(-1).expand_as(scores)
    lowest = scores.new_full((num_groups, scores.shape[1]), -torch.inf)
    highest = lowest.scatter_reduce(0, index, scores.detach(), "amax")
    weights = torch.exp(scores - highest.index_select(0, group))
    totals = torch.zeros_like(lowest).index_add(0, group, weights)
    return weights / totals.index_select(0, group)


def with_loops(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return the edges and a loop at every node."""
    return torch.cat([edge_index, torch.arange(num_nodes).repeat(2, 1)], 1)


@dataclass(frozen=True)
class Pull:
    """A set of rows that the hidden layer is to resemble, and how much that counts."""

    nodes: Tensor
    rows: Tensor
    beta: float


class PublicGat(Gat):
    """A GAT with heads side by side, `hidden` units in all, ELU, then one head that gives the
    scores."""

    def __init__(self, graph: Graph, hidden: int, heads: int, device: torch.device) -> None:
        super().__init__(graph, hidden, heads, linear_readout=False, device=device)
        self._loops = with_loops(graph.edge_index[:, :0], graph.num_nodes).to(device)

    def initial(self, stream: torch.Generator) -> tuple[Tensor, ...]:
        """Return Glorot-uniform weights, matrix by matrix."""
        return split_vector(draw_glorot(self.shapes, stream), self.shapes)

    def hidden_without_edges(self, weights: Weights) -> Tensor:
        """Return what every client that holds a node makes of it, whatever its edges are."""
        return self.hidden(weights, edges=self._loops)


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
        """Train for full-batch epochs. A client without labels only follows the pull."""
        for _ in range(epochs if len(nodes) or pull else 0):
            hidden = self._network.hidden(self.weights, dropout, stream)
            logits = self._network.scores(hidden, self.weights, dropout, stream)
            loss = cross_entropy(logits[nodes], classes) if len(nodes) else logits.sum() * 0
            if pull is not None:
                loss = loss + pull.beta * _cosine_distance(hidden[pull.nodes], pull.rows)
            self._optimizer.step(torch.autograd.grad(loss, self.weights))


def _cosine_distance(rows: Tensor, towards: Tensor) -> Tensor:
    return (1 - cosine_similarity(rows, towards, dim=1)).mean()
