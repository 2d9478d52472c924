"""The matrix behind a declared sum over the graph, for those who know the graph."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from securefg.models.appnp import propagation_matrix
from securefg.protocol.meanings import GraphOperator


def operator_matrix(
    operator: GraphOperator, edge_index: Tensor, num_nodes: int
) -> NDArray[np.float64]:
    """Return row k: what every client's value is multiplied by in the k-th sum."""
    if operator.kind == "appnp":  # nobody is in its own sum
        matrix = propagation_matrix(edge_index, num_nodes, operator.teleport, operator.steps)
        propagated: NDArray[np.float64] = matrix.fill_diagonal_(0).double().numpy()
        return propagated
    found: NDArray[np.float64] = neighbourhood_sums(edge_index, num_nodes, operator.least).toarray()
    return found


def neighbourhood_sums(edge_index: Tensor, num_nodes: int, least: int = 1) -> sparse.csr_array:
    """Return A_hat = D^-1/2 (A + I) D^-1/2 without the rows of fewer than `least` terms."""
    loops = torch.arange(num_nodes)
    row, column = torch.cat([edge_index.cpu(), loops.expand(2, -1)], 1).numpy()
    sizes = np.bincount(row, minlength=num_nodes)
    values = 1 / np.sqrt(sizes[row] * sizes[column].astype(np.float64))
    kept = sizes[row] >= least
    entries = (values[kept], (row[kept], column[kept]))
    return sparse.csr_array(entries, shape=(num_nodes, num_nodes))
