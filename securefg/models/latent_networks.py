"""What a server computes on latents when users keep a network's first weights (nFedGNN).

The rest of a GCN or a GAT, the regulariser L_reg, and the weighted sums over closed neighbourhoods
that the server may have instead of the latents, with what these sums give away.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from scipy import sparse
from torch import Tensor
from torch.nn.functional import elu

from securefg.foundation.errors import ConfigError
from securefg.foundation.streams import torch_stream
from securefg.models.gat import attend, with_loops
from securefg.models.gcn import normalized_adjacency
from securefg.models.network import dropped, glorot
from securefg.models.sparse import SparseMatrix
from securefg.secagg.exposure import linear_exposure


class LatentGcn:
    """Z = A_hat ReLU(A_hat X') W, of nFedGNN's equation 5, with dropout after the ReLU."""

    def __init__(
        self,
        edge_index: Tensor,
        sizes: tuple[int, int, int],
        dropout: float,
        seed: int,
        device: torch.device,
        summed: bool = False,
    ) -> None:
        """`sizes`: nodes, numbers in a latent, classes. `summed`: A_hat X' comes in, not X'."""
        num_nodes, hidden, num_classes = sizes
        self._dropout, self._summed = dropout, summed
        self._adjacency = normalized_adjacency(edge_index, num_nodes).to(device)
        weights = glorot(((hidden, num_classes),), torch_stream(seed, "weights"))
        self.parameters = [weights.view(hidden, num_classes).to(device).requires_grad_()]

    def logits(self, received: Tensor, stream: torch.Generator | None = None) -> Tensor:
        """Class scores per node; dropout acts where a stream is given."""
        hidden = torch.relu(received if self._summed else self._adjacency @ received)
        hidden = dropped(hidden, self._dropout, stream)
        scores: Tensor = self._adjacency @ (hidden @ self.parameters[0])
        return scores


class LatentGat:
    """Layer 1, per head l: ELU(sum_j a^l_ij x'_j,l), heads side by side (nFedGNN's equation 9).

    Layer 2 is one head to the classes. Dropout acts on what layer 2 takes in and on attention.
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
        """`sizes`: nodes, numbers in a latent over all heads, classes."""
        num_nodes, width, num_classes = sizes
        self._heads, self._dropout = heads, dropout
        self._edges = with_loops(edge_index, num_nodes).to(device)
        stream = torch_stream(seed, "weights")
        first, last = (heads, width // heads), (1, num_classes)
        shapes = [first, first, (width, num_classes), last, last]
        self.parameters = [
            glorot((shape,), stream).view(shape).to(device).requires_grad_() for shape in shapes
        ]

    def logits(self, received: Tensor, stream: torch.Generator | None = None) -> Tensor:
        """Class scores per node; dropout acts where a stream is given."""
        target0, source0, weights, target1, source1 = self.parameters
        rate = 0.0 if stream is None else self._dropout
        per_head = received.view(len(received), self._heads, -1)
        hidden = elu(attend(per_head, target0, source0, self._edges, rate, stream).flatten(1))
        scores = (dropped(hidden, rate, stream) @ weights)[:, None]
        return attend(scores, target1, source1, self._edges, rate, stream)[:, 0]


class Smoothness:
    """L_reg of nFedGNN (equation 6), sum_e |z_i - z_j|^2 / E = tr(Z^T L Z) / E.

    L = D_out + D_in - A - A^T. Several heads side by side in Z are each counted, and summed.
    """

    def __init__(self, edge_index: Tensor, num_nodes: int, device: torch.device) -> None:
        source, target = edge_index
        degrees = torch.bincount(torch.cat([source, target]), minlength=num_nodes)
        nodes = torch.arange(num_nodes)
        row = torch.cat([source, target, nodes])
        column = torch.cat([target, source, nodes])
        values = torch.cat([-torch.ones(2 * len(source)), degrees.float()])
        size = (num_nodes, num_nodes)
        merged = torch.sparse_coo_tensor(
            torch.stack([row, column]), values, size, check_invariants=False
        ).coalesce()
        row, column = merged.indices()
        laplacian = SparseMatrix.from_sorted_entries(row, column, merged.values(), size)
        self._laplacian = laplacian.to(device)
        self._num_edges = max(edge_index.shape[1], 1)

    def __call__(self, latents: Tensor) -> Tensor:
        return (latents * (self._laplacian @ latents)).sum() / self._num_edges


class Neighbourhoods:
    """The sums s_i = sum_j A_hat_ij z_j over i and its neighbours, for all i that have enough.

    A neighbourhood of fewer than `least` is left out: its sum would say too much about each, and
    s_i is zero.
    """

    def __init__(self, edge_index: Tensor, num_nodes: int, least: int) -> None:
        loops = torch.arange(num_nodes)
        row, column = torch.cat([edge_index.cpu(), loops.expand(2, -1)], 1)
        sizes = torch.bincount(row, minlength=num_nodes)
        root = sizes.double().rsqrt()
        kept = sizes[row] >= least
        self._row, self._column = row[kept], column[kept]
        self._weights = (root[row] * root[column])[kept]
        self._size = (num_nodes, num_nodes)
        self._num_released = int((sizes >= least).sum())
        self._transposed = SparseMatrix.from_entries(
            self._column, self._row, self._weights.float(), self._size
        )

    def of_each(self) -> tuple[Tensor, Tensor]:
        """What every node must know to contribute: whose sums it is in, and with which weight.

        Two arrays with a row per node, filled up with -1 and 0 to the most that any node has.
        """
        order = torch.argsort(self._column, stable=True)
        node, sums = self._column[order], self._row[order]
        counts = torch.bincount(node, minlength=self._size[0])
        place = torch.arange(len(node)) - (counts.cumsum(0) - counts)[node]
        width = int(counts.max()) if len(node) else 0
        whose = torch.full((self._size[0], width), -1, dtype=torch.int32)
        weight = torch.zeros(self._size[0], width)
        whose[node, place] = sums.int()
        weight[node, place] = self._weights[order].float()
        return whose, weight

    def back(self, gradient: Tensor) -> Tensor:
        """dL/dz from dL/ds."""
        return self._transposed.to(gradient.device) @ gradient

    def facts(self) -> dict[str, float]:
        """How many sums there are, and the share of latents that they give away."""
        num_nodes = self._size[0]
        share = self.num_exposed(range(num_nodes)) / num_nodes
        return {"sums_released": self._num_released, "latents_exposed_by_algebra": share}

    def num_exposed(self, present: Sequence[int]) -> int:
        """How many single latents follow from the sums over those present, by algebra alone.

        All of them, as far as anybody can tell, where the graph is too large to be solved.
        """
        entries = (self._weights.numpy(), (self._row.numpy(), self._column.numpy()))
        gone = set(range(self._size[0])) - set(present)
        try:
            found = linear_exposure(sparse.csr_array(entries, shape=self._size), gone)
        except ConfigError:
            return len(present)
        return int(found.exposed.sum())


def spread(latents: Tensor, whose: Tensor, weight: Tensor, num_sums: int) -> Tensor:
    """Every node's contribution to all sums, (n, sums, q): zero where it is in none."""
    out = latents.new_zeros(len(latents), num_sums, latents.shape[1])
    node, place = (whose >= 0).nonzero(as_tuple=True)
    out[node, whose[node, place].long()] = weight[node, place, None] * latents[node]
    return out
