"""How unlike neighbours are: the mean of |z_i - z_j|^2 over the directed edges, as one product."""

from __future__ import annotations

import torch
from torch import Tensor

from securefg.models.sparse import SparseMatrix


class Smoothness:
    """L_reg of nFedGNN (equation 6), sum_e |z_i - z_j|^2 / E = tr(Z^T L Z) / E.

    L = D_out + D_in - A - A^T. Several heads side by side in Z are each counted, and summed.
    """

    def __init__(self, edge_index: Tensor, num_nodes: int, device: torch.device) -> None:
        source, target = edge_index.cpu()
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
