"""Closed neighbourhoods of which a server may have the weighted sums, and what these give away."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from scipy import sparse
from torch import Tensor

from securefg.foundation.errors import ConfigError
from securefg.models.sparse import SparseMatrix
from securefg.secagg.exposure import linear_exposure


class Neighbourhoods:
    """A set of sums s_i = sum_j A_hat_ij z_j over i and its neighbours, for all i that have enough.

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
        """Return what every node must know to contribute: whose sums it is in, and with which
        weight.

        These are two arrays with a row per node, filled up with -1 and 0 to the most that any node
        has.
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
        """Return dL/dz from dL/ds."""
        return self._transposed.to(gradient.device) @ gradient

    def facts(self) -> dict[str, float]:
        """Return how many sums there are, and the share of latents that they give away."""
        num_nodes = self._size[0]
        share = self.num_exposed(range(num_nodes)) / num_nodes
        return {"sums_released": self._num_released, "latents_exposed_by_algebra": share}

    def num_exposed(self, present: Sequence[int]) -> int:
        """Return how many single latents follow from the sums over those present, by algebra alone.

        If the graph is too large to be solved, all of them may follow, as far as anybody can tell.
        """
        entries = (self._weights.numpy(), (self._row.numpy(), self._column.numpy()))
        gone = set(range(self._size[0])) - set(present)
        try:
            found = linear_exposure(sparse.csr_array(entries, shape=self._size), gone)
        except ConfigError:
            return len(present)
        return int(found.exposed.sum())


def spread_latents(latents: Tensor, whose: Tensor, weight: Tensor, num_sums: int) -> Tensor:
    """Return every node's contribution to all sums, (n, sums, q): zero where it is in none."""
    out = latents.new_zeros(len(latents), num_sums, latents.shape[1])
    node, place = (whose >= 0).nonzero(as_tuple=True)
    out[node, whose[node, place].long()] = weight[node, place, None] * latents[node]
    return out
