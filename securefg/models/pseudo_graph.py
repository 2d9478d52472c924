"""FedGL's global pseudo graph: built exactly or nearly so, kept sparse, projected to clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from securefg.foundation.errors import ProtocolError
from securefg.models.approximate_neighbors import faiss, near_rows, recall
from securefg.models.sparse import SparseMatrix

Degree = Literal["count", "weight"]
BLOCK_ENTRIES = 1 << 22


@dataclass(frozen=True)
class PseudoGraph:
    """N rows in CSR form: row i has `counts[i]` neighbours, ascending, with weights of sum one."""

    counts: Tensor
    columns: Tensor
    values: Tensor

    def to(self, device: torch.device | str) -> PseudoGraph:
        """Return the graph on a device."""
        parts = (self.counts, self.columns, self.values)
        return PseudoGraph(*(part.to(device) for part in parts))


def received_graph(
    kind: str, counts: Tensor | None, columns: Tensor | None, values: Tensor | None
) -> PseudoGraph | None:
    """Return the graph that a message of this kind holds, if it holds one; raise if the parts do
    not fit: the counts add up to the neighbours."""
    if counts is None and columns is None and values is None:
        return None
    if counts is None or columns is None or values is None:
        raise ProtocolError(f"{kind}.graph_counts: found a part; expected the whole graph")
    # A few large counts would be written out as that many entries, and may overflow to a small sum.
    fits = bool(((counts >= 0) & (counts <= len(columns))).all())
    if not fits or len(columns) != len(values) or int(counts.long().sum()) != len(columns):
        raise ProtocolError(
            f"{kind}.graph_counts: found {len(columns)} neighbours and {len(values)} weights, and "
            "counts do not add up to them; expected the same of all"
        )
    # PyTorch takes bytes for a mask, and repeats by no short integers.
    return PseudoGraph(counts.long(), columns.long(), values)


def require_ascending(kind: str, graph: PseudoGraph | None) -> None:
    """Raise unless each row's neighbours ascend, in the graph that a message of this kind holds."""
    if graph is None:
        return
    rises = graph.columns[1:] > graph.columns[:-1]
    starts = graph.counts.cumsum(0)[:-1]
    rises[starts[(starts > 0) & (starts < len(graph.columns))] - 1] = True  # to the next row
    if not bool(rises.all()):
        raise ProtocolError(
            f"{kind}.graph_columns: found neighbours out of order; expected ascending ones"
        )


@dataclass(frozen=True)
class Search:
    """How similar nodes are found: exactly, or above so many nodes approximately, on a CPU.

    Raises at once where the library of the approximate search is wanted and missing.
    """

    num_neighbors: int
    exact_nodes: int
    num_nodes: int
    device: torch.device

    def __post_init__(self) -> None:
        if self.is_approximate:
            faiss()

    @property
    def is_approximate(self) -> bool:
        """Whether the nodes are too many for all pairs."""
        return self.num_nodes > self.exact_nodes and self.device.type == "cpu"

    def graph_of(self, embeddings: Tensor, seed: int) -> tuple[PseudoGraph, float | None]:
        """Connect the similar; the recall is None where the search was exact."""
        if self.is_approximate:
            return build_nearly(embeddings, self.num_neighbors, seed)
        return build_pseudo_graph(embeddings.to(self.device), self.num_neighbors), None


def build_pseudo_graph(embeddings: Tensor, num_neighbors: int) -> PseudoGraph:
    """Equation 14: ReLU(H H^T), the s largest entries of each row, rows scaled to sum one.

    A block of rows at a time: memory grows with N * s, time with N^2.
    """
    rows = max(1, BLOCK_ENTRIES // len(embeddings))
    blocks = [
        _top_rows((part @ embeddings.T).relu_(), num_neighbors)
        for part in torch.split(embeddings, rows)
    ]
    counts, columns, values = (torch.cat(p) for p in zip(*blocks, strict=True))
    return PseudoGraph(counts, columns, values)


def build_nearly(embeddings: Tensor, num_neighbors: int, seed: int) -> tuple[PseudoGraph, float]:
    """The same from neighbours found approximately, and the measured share of the true ones that
    were found; memory grows with N * s, time with N^1.5."""
    found = near_rows(embeddings, num_neighbors, seed)
    columns = found.sort(1).values
    row = torch.arange(len(columns)).repeat_interleave(columns.shape[1])
    column = columns.flatten()
    values = _inner_products(embeddings, columns.clamp_min(0))
    kept = (column >= 0) & (values > 0)
    row, column, values = row[kept], column[kept], values[kept]
    totals = values.new_zeros(len(embeddings)).index_add_(0, row, values)
    counts = torch.bincount(row, minlength=len(embeddings))
    graph = PseudoGraph(counts.int(), column.int(), values / totals[row])
    return graph, recall(embeddings, found)


def _inner_products(embeddings: Tensor, columns: Tensor) -> Tensor:
    """Of every row with its columns, flat; a block of rows at a time."""
    rows = max(1, BLOCK_ENTRIES // (columns.shape[1] * embeddings.shape[1]))
    parts = zip(torch.split(embeddings, rows), torch.split(columns, rows), strict=True)
    return torch.cat(
        [torch.einsum("rd,rcd->rc", own, embeddings[of]) for own, of in parts]
    ).flatten()


def _top_rows(similar: Tensor, kept: int) -> tuple[Tensor, Tensor, Tensor]:
    """The `kept` largest positive entries of each row; among equals, those of smaller index."""
    threshold = _kth_largest(similar, kept).clamp_min(torch.finfo(similar.dtype).tiny)
    chosen = similar >= threshold
    crowded = chosen.sum(1) > kept
    if bool(crowded.any()):
        chosen[crowded] = _break_ties(similar[crowded], threshold[crowded], kept)
    row, column = chosen.nonzero(as_tuple=True)
    values = similar[row, column]
    totals = values.new_zeros(len(similar)).index_add_(0, row, values)
    counts = torch.bincount(row, minlength=len(similar))
    return counts.int(), column.int(), values / totals[row]


def _kth_largest(similar: Tensor, kept: int) -> Tensor:
    if kept >= similar.shape[1]:
        return similar.new_zeros(len(similar), 1)
    if similar.device.type != "cpu":
        return similar.topk(kept, dim=1).values[:, -1:]
    place = similar.shape[1] - kept
    return torch.from_numpy(np.partition(similar.numpy(), place, axis=1)[:, place : place + 1])


def _break_ties(similar: Tensor, threshold: Tensor, kept: int) -> Tensor:
    above, equal = similar > threshold, similar == threshold
    room = kept - above.sum(1, keepdim=True)
    return above | (equal & (equal.cumsum(1) <= room))


def projected(graph: PseudoGraph, node_ids: Tensor, scale: float, degree: Degree) -> SparseMatrix:
    """scale * D^-1/2 A^(k) D^-1/2 with A^(k) the pseudo graph among `node_ids`, which ascend.

    `degree`: D counts a node's pseudo neighbours, or sums their weights.
    """
    count = len(node_ids)
    local = torch.full((len(graph.counts),), -1, dtype=torch.int32, device=node_ids.device)
    local[node_ids] = torch.arange(count, dtype=torch.int32, device=node_ids.device)
    row, column = local.repeat_interleave(graph.counts), local[graph.columns]
    inside = ((row >= 0) & (column >= 0)).nonzero().flatten()
    row, column, values = row[inside], column[inside], graph.values[inside]
    mass = torch.ones_like(values) if degree == "count" else values
    degrees = values.new_zeros(count).index_add_(0, row, mass)
    inverse_root = degrees.rsqrt().masked_fill(degrees == 0, 0.0) * scale**0.5
    entries = inverse_root[row] * values * inverse_root[column]
    return SparseMatrix.from_sorted_entries(row, column, entries, (count, count))
