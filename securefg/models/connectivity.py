"""How well a graph is connected, as the convergence theorem of GFL-APPNP measures it."""

from __future__ import annotations

import torch
from torch import Tensor


def heterogeneity(edge_index: Tensor, num_nodes: int) -> float:
    """lambda_max(B_N L^+), B_N = I/N - 11^T/N^2, L the Laplacian: large where connection is bad.

    L^+ has no part along the vector 1, so this is lambda_max(L^+) / N = 1 / (N lambda), lambda the
    smallest eigenvalue of L that is not zero. A graph in several components is judged by them:
    the theorem wants a connected one. 0 where there is no edge at all.
    """
    adjacency = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    adjacency[edge_index[0], edge_index[1]] = 1
    laplacian = torch.diag(adjacency.sum(1)) - adjacency
    values = torch.linalg.eigvalsh(laplacian)
    positive = values[values > 1e-9 * max(1.0, float(values[-1]))]
    return 1 / (num_nodes * float(positive[0])) if len(positive) else 0.0
