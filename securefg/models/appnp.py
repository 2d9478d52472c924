"""Personalised propagation (APPNP, Gasteiger et al. 2019) as one matrix, and as an operator."""

from __future__ import annotations

import torch
from torch import Tensor

from securefg.models.gcn import Operator


def propagate(adjacency: Operator, hidden: Tensor, teleport: float, steps: int) -> Tensor:
    """A_tilde H without the matrix: Z_0 = H, Z_{i+1} = (1 - teleport) A_hat Z_i + teleport H."""
    propagated = hidden
    for _ in range(steps):
        propagated = (1 - teleport) * (adjacency @ propagated) + teleport * hidden
    return propagated


def propagation_matrix(
    edge_index: Tensor, num_nodes: int, teleport: float = 0.1, steps: int = 10
) -> Tensor:
    """A_tilde = sum_{i<M} a (1-a)^i A_hat^i + (1-a)^M A_hat^M with teleport a and M steps.

    Dense (N x N) float64 with A_hat = D^-1/2 (A + I) D^-1/2. Standard APPNP; equation 13b of the
    GFL-APPNP paper reads with a and 1 - a exchanged, which cannot give the paper's own figures.
    """
    identity = torch.eye(num_nodes, dtype=torch.float64)
    return propagate(dense_adjacency(edge_index, num_nodes), identity, teleport, steps)


def dense_adjacency(edge_index: Tensor, num_nodes: int) -> Tensor:
    """A_hat = D^-1/2 (A + I) D^-1/2, dense float64."""
    looped = torch.eye(num_nodes, dtype=torch.float64)
    looped[edge_index[0], edge_index[1]] = 1
    inverse_root = looped.sum(1).rsqrt()
    return inverse_root[:, None] * looped * inverse_root
