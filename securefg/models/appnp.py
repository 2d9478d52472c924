"""Personalised propagation (APPNP, Gasteiger et al. 2019), and how connected a graph is."""

from __future__ import annotations

import torch
from torch import Tensor

from securefg.models.gcn import Operator


def propagate_hidden(
    adjacency: Operator | Tensor, hidden: Tensor, teleport: float, steps: int
) -> Tensor:
    """Return A_tilde H without the matrix: Z_0 = H, Z_{i+1} = (1 - teleport) A_hat Z_i + teleport
    H."""
    propagated = hidden
    for _ in range(steps):
        propagated = (1 - teleport) * (adjacency @ propagated) + teleport * hidden
    return propagated


def propagation_matrix(
    edge_index: Tensor, num_nodes: int, teleport: float = 0.1, steps: int = 10
) -> Tensor:
    """A_tilde = sum_{i<M} a (1-a)^i A_hat^i + (1-a)^M A_hat^M with teleport a and M steps.

    The matrix is dense (N x N) float64 with A_hat = D^-1/2 (A + I) D^-1/2. This is standard APPNP.
    Equation 13b of the GFL-APPNP paper reads with a and 1 - a exchanged, which cannot give the
    paper's own figures.
    """
    identity = torch.eye(num_nodes, dtype=torch.float64)
    return propagate_hidden(dense_adjacency(edge_index, num_nodes), identity, teleport, steps)


def dense_adjacency(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return A_hat = D^-1/2 (A + I) D^-1/2, dense float64."""
    looped = torch.eye(num_nodes, dtype=torch.float64)
    looped[edge_index[0], edge_index[1]] = 1
    inverse_root = looped.sum(1).rsqrt()
    return inverse_root[:, None] * looped * inverse_root


def graph_heterogeneity(edge_index: Tensor, num_nodes: int) -> float:
    """lambda_max(B_N L^+), B_N = I/N - 11^T/N^2, L the Laplacian: large where connection is bad.

    L^+ has no part along the vector 1, so this is lambda_max(L^+) / N = 1 / (N lambda), lambda the
    smallest eigenvalue of L that is not zero. A graph in several components is judged by them: the
    theorem wants a connected one. It is 0 if there is no edge at all.
    """
    adjacency = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    adjacency[edge_index[0], edge_index[1]] = 1
    laplacian = torch.diag(adjacency.sum(1)) - adjacency
    values = torch.linalg.eigvalsh(laplacian)
    positive = values[values > 1e-9 * max(1.0, float(values[-1]))]
    return 1 / (num_nodes * float(positive[0])) if len(positive) else 0.0
