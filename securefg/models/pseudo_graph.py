"""FedGL's global pseudo graph: built in blocks of rows, kept sparse, projected to a client's nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from securefg.models.sparse import SparseMatrix

Degree = Literal["count", "weight"]
BLOCK_ENTRIES = 1 << 23


@dataclass(frozen=True)
class PseudoGraph:
    """N rows of at most s neighbours: `columns` ascend within a row, `values` sum to one or zero."""

    columns: Tensor
    values: Tensor


def build_pseudo_graph(embeddings: Tensor, num_neighbors: int) -> PseudoGraph:
    """Equation 14: ReLU(H H^T), the s largest entries of each row, rows scaled to sum one.

    A block of rows at a time: memory grows with N * s, time with N^2.
    """
    num_nodes = embeddings.shape[0]
    kept = min(num_neighbors, num_nodes)
    rows = max(1, BLOCK_ENTRIES // num_nodes)
    columns = torch.empty(num_nodes, kept, dtype=torch.int32, device=embeddings.device)
    values = torch.empty(num_nodes, kept, device=embeddings.device)
    for first in range(0, num_nodes, rows):
        block = slice(first, first + rows)
        similar = (embeddings[block] @ embeddings.T).relu_()
        top, where = similar.topk(kept, dim=1, sorted=False)
        columns[block], order = where.int().sort(dim=1)
        values[block] = top.gather(1, order)
    values /= values.sum(1, keepdim=True).clamp_min(torch.finfo(values.dtype).tiny)
    return PseudoGraph(columns, values)


def projected(graph: PseudoGraph, node_ids: Tensor, scale: float, degree: Degree) -> SparseMatrix:
    """scale * D^-1/2 A^(k) D^-1/2 with A^(k) the pseudo graph among the nodes `node_ids`.

    `degree`: D counts a node's pseudo neighbours, or sums their weights.
    """
    count = len(node_ids)
    local = torch.full((len(graph.columns),), -1, dtype=torch.int64, device=node_ids.device)
    local[node_ids] = torch.arange(count, device=node_ids.device)
    columns = local[graph.columns[node_ids].long()]
    values = graph.values[node_ids]
    row, place = ((columns >= 0) & (values > 0)).nonzero(as_tuple=True)
    column, entry = columns[row, place], values[row, place]
    mass = torch.ones_like(entry) if degree == "count" else entry
    degrees = torch.zeros(count, device=entry.device).index_add_(0, row, mass)
    inverse_root = degrees.rsqrt().masked_fill(degrees == 0, 0.0)
    entry = scale * inverse_root[row] * entry * inverse_root[column]
    return SparseMatrix.from_entries(row, column, entry, (count, count))
