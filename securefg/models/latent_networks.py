"""The rest of a GCN or a GAT when users keep its first weights (nFedGNN), and L_reg."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import elu

from securefg.foundation.streams import torch_stream
from securefg.models.gat import attend_neighbours, with_loops
from securefg.models.gcn import normalized_adjacency
from securefg.models.network import draw_glorot, drop_values
from securefg.models.sparse import SparseMatrix


class LatentGcn:
    """A GCN on latents: Z = A_hat ReLU(A_hat X') W, of nFedGNN's equation 5, with dropout after the
    ReLU."""

    def __init__(
        self,
        edge_index: Tensor,
        sizes: tuple[int, int, int],
        dropout: float,
        seed: int,
        device: torch.device,
        summed: bool = False,
    ) -> None:
        """Take `sizes`: nodes, numbers in a latent, classes. With `summed`, A_hat X' comes in, not
        X'."""
        num_nodes, hidden, num_classes = sizes
        self._dropout, self._summed = dropout, summed
        self._adjacency = normalized_adjacency(edge_index, num_nodes).to(device)
        weights = draw_glorot(((hidden, num_classes),), torch_stream(seed, "weights"))
        self.parameters = [weights.view(hidden, num_classes).to(device).requires_grad_()]

    def logits(self, received: Tensor, stream: torch.Generator | None = None) -> Tensor:
        """Return class scores per node. Dropout acts where a stream is given."""
        hidden = torch.relu(received if self._summed else self._adjacency @ received)
        hidden = drop_values(hidden, self._dropout, stream)
        scores: Tensor = self._adjacency @ (hidden @ self.parameters[0])
        return scores


class LatentGat:
    """A GAT on latents. Layer 1, per head l: ELU(sum_j a^l_ij x'_j,l), heads side by side
    (nFedGNN's equation 9).

    Layer 2 is one head to the classes. Dropout acts on the input of layer 2 and on attention.
    """

    def __init__(
        self,
        edge_index: Tensor,
        sizes: tuple[int, int, int],
        heads: int,
        dropout: float,
        seed: int,
        device: torch.device,
    ) -> None:
        """Take `sizes`: nodes, numbers in a latent over all heads, classes."""
        num_nodes, width, num_classes = sizes
        self._heads, self._dropout = heads, dropout
        self._edges = with_loops(edge_index, num_nodes).to(device)
        stream = torch_stream(seed, "weights")
        first, last = (heads, width // heads), (1, num_classes)
        shapes = [first, first, (width, num_classes), last, last]
        self.parameters = [
            draw_glorot((shape,), stream).view(shape).to(device).requires_grad_()
            for shape in shapes
        ]

    def logits(self, received: Tensor, stream: torch.Generator | None = None) -> Tensor:
        """Return class scores per node. Dropout acts where a stream is given."""
        target0, source0, weights, target1, source1 = self.parameters
        rate = 0.0 if stream is None else self._dropout
        per_head = received.view(len(received), self._heads, -1)
        hidden = elu(
            attend_neighbours(per_head, target0, source0, self._edges, rate, stream).flatten(1)
        )
        scores = (drop_values(hidden, rate, stream) @ weights)[:, None]
        return attend_neighbours(scores, target1, source1, self._edges, rate, stream)[:, 0]


class Smoothness:
    """A penalty, L_reg of nFedGNN (equation 6): sum_e |z_i - z_j|^2 / E = tr(Z^T L Z) / E.

    L = D_out + D_in - A - A^T. Several heads side by side in Z are each counted, and summed.
    """

    def __init__(self, edge_index: Tensor, num_nodes: int, device: torch.device) -> None:
        self._laplacian = _directed_laplacian(edge_index, num_nodes).to(device)
        self._num_edges = max(edge_index.shape[1], 1)

    def __call__(self, latents: Tensor) -> Tensor:
        return (latents * (self._laplacian @ latents)).sum() / self._num_edges


def _directed_laplacian(edge_index: Tensor, num_nodes: int) -> SparseMatrix:
    """Return D_out + D_in - A - A^T. An edge from a node to itself adds nothing."""
    is_loop = edge_index[0] == edge_index[1]
    if bool(is_loop.any()):
        edge_index = edge_index[:, ~is_loop]
    pairs, counts = _unordered_pairs(edge_index, num_nodes)
    low, high = pairs // num_nodes, pairs % num_nodes
    degrees = torch.bincount(edge_index.flatten(), minlength=num_nodes)
    nodes = torch.arange(num_nodes)
    row, column = torch.cat([low, high, nodes]), torch.cat([high, low, nodes])
    values = torch.cat([-counts, -counts, degrees.float()])
    return SparseMatrix.from_entries(row, column, values, (num_nodes, num_nodes))


def _unordered_pairs(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Return the joined pairs as low * N + high, ascending, and how many edges join each."""
    low, high = edge_index.min(0).values, edge_index.max(0).values
    pairs, counts = torch.unique_consecutive(
        (low * num_nodes + high).sort().values, return_counts=True
    )
    return pairs, counts.float()
