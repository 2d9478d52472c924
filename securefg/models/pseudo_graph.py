"""FedGL's global pseudo graph: built exactly or nearly so, kept sparse, projected to clients.

Above a number of nodes faiss finds the largest inner products approximately, and the recall is
measured. A search for inner products is one for distances once every row has a coordinate more that
brings it to one length (Bachrach et al. 2014): |q' - x'|^2 = |q'|^2 + M^2 - 2 q.x with
x' = (x, sqrt(M^2 - |x|^2)) and q' = (q, 0). The rows x' are clustered (an inverted file), and a
query is compared with the rows of the `PROBED` nearest of 2 sqrt(N) clusters: time grows with
N^1.5.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from types import ModuleType
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from securefg.foundation.errors import ConfigError, ProtocolError
from securefg.models.shared_operators import share_operator
from securefg.models.sparse import SparseMatrix

Degree = Literal["count", "weight"]
BLOCK_ENTRIES = 1 << 22


@dataclass(frozen=True)
class PseudoGraph:
    """A graph of N rows in CSR form: row i has `counts[i]` neighbours, ascending, with weights of
    sum one."""

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
    """Return the graph that a message of this kind holds, if it holds one. Raise if the parts do
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
    """A search for similar nodes: exact, or above so many nodes approximate, on a CPU.

    It raises at once if the library of the approximate search is wanted and missing.
    """

    num_neighbors: int
    exact_nodes: int
    num_nodes: int
    device: torch.device

    def __post_init__(self) -> None:
        if self.is_approximate:
            import_faiss()

    @property
    def is_approximate(self) -> bool:
        """Return whether the nodes are too many for all pairs."""
        return self.num_nodes > self.exact_nodes and self.device.type == "cpu"

    def graph_of(self, embeddings: Tensor, seed: int) -> tuple[PseudoGraph, float | None]:
        """Connect the similar. Return the graph and the recall, which is None if the search was
        exact."""
        if self.is_approximate:
            return build_nearly(embeddings, self.num_neighbors, seed)
        return build_pseudo_graph(embeddings.to(self.device), self.num_neighbors), None


def build_pseudo_graph(
    embeddings: Tensor, num_neighbors: int, block_entries: int = BLOCK_ENTRIES
) -> PseudoGraph:
    """Return the graph of equation 14: ReLU(H H^T), the s largest entries of each row, rows scaled
    to sum one.

    It takes a block of rows at a time: memory grows with N * s, time with N^2.
    """
    rows = max(1, block_entries // len(embeddings))
    blocks = [
        _top_rows((part @ embeddings.T).relu_(), num_neighbors)
        for part in torch.split(embeddings, rows)
    ]
    counts, columns, values = (torch.cat(p) for p in zip(*blocks, strict=True))
    return PseudoGraph(counts, columns, values)


def build_nearly(embeddings: Tensor, num_neighbors: int, seed: int) -> tuple[PseudoGraph, float]:
    """Return the same graph from neighbours found approximately, and the measured share of the true
    neighbours that were found. Memory grows with N * s, time with N^1.5."""
    neighbour_rows = near_rows(embeddings, num_neighbors, seed)
    columns = neighbour_rows.sort(1).values
    row = torch.arange(len(columns)).repeat_interleave(columns.shape[1])
    column = columns.flatten()
    values = _inner_products(embeddings, columns.clamp_min(0))
    kept = (column >= 0) & (values > 0)
    row, column, values = row[kept], column[kept], values[kept]
    totals = values.new_zeros(len(embeddings)).index_add_(0, row, values)
    counts = torch.bincount(row, minlength=len(embeddings))
    graph = PseudoGraph(counts.int(), column.int(), values / totals[row])
    return graph, search_recall(embeddings, neighbour_rows)


def _inner_products(embeddings: Tensor, columns: Tensor) -> Tensor:
    """Return the inner products of every row with its columns, flat, a block of rows at a time."""
    rows = max(1, BLOCK_ENTRIES // (columns.shape[1] * embeddings.shape[1]))
    parts = zip(torch.split(embeddings, rows), torch.split(columns, rows), strict=True)
    return torch.cat(
        [torch.einsum("rd,rcd->rc", own, embeddings[of]) for own, of in parts]
    ).flatten()


def _top_rows(similar: Tensor, kept: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the `kept` largest positive entries of each row. Among equals, those of smaller
    index."""
    threshold = _kth_largest(similar, kept).clamp_min(torch.finfo(similar.dtype).tiny)
    chosen = similar >= threshold
    row, column = _true_places(chosen)
    counts = torch.bincount(row, minlength=len(similar))
    crowded = counts > kept
    if bool(crowded.any()):
        chosen[crowded] = _break_ties(similar[crowded], threshold[crowded], kept)
        row, column = _true_places(chosen)
        counts = torch.bincount(row, minlength=len(similar))
    values = similar[row, column]
    totals = values.new_zeros(len(similar)).index_add_(0, row, values)
    return counts.int(), column.int(), values / totals[row]


def _true_places(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows and columns of the true entries. On the CPU NumPy finds them faster."""
    if chosen.device.type != "cpu":
        row, column = chosen.nonzero(as_tuple=True)
        return row, column
    places = torch.from_numpy(np.flatnonzero(chosen.numpy()))
    row = places // chosen.shape[1]
    return row, places - row * chosen.shape[1]


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


def project_graph(
    graph: PseudoGraph, node_ids: Tensor, scale: float, degree: Degree
) -> SparseMatrix:
    """Return scale * D^-1/2 A^(k) D^-1/2 with A^(k) the pseudo graph among `node_ids`, which
    ascend.

    `degree`: D counts a node's pseudo neighbours, or sums their weights.
    """
    return share_operator(
        "pseudo graph",
        (graph.counts, graph.columns, graph.values, node_ids),
        (scale, degree),
        lambda: _project_uncached(graph, node_ids, scale, degree),
    )


def _project_uncached(
    graph: PseudoGraph, node_ids: Tensor, scale: float, degree: Degree
) -> SparseMatrix:
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


PROBED = 64
ROWS_PER_CLUSTER = 39  # fewer, and faiss warns that its clusters are poor
CHECKED_ROWS = 256


def import_faiss() -> ModuleType:
    """Import the optional package. Raise `ConfigError` if it is missing."""
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise ConfigError(
            "method.exact_nodes: a pseudo graph over more nodes needs faiss: pip install "
            "'securefg[faiss]'; without it: a larger exact_nodes (time grows with its square)"
        ) from error


def near_rows(rows: Tensor, count: int, seed: int) -> Tensor:
    """Return for every row the numbers of up to `count` rows, itself included, by largest inner
    product, and -1 if fewer were found. Rows that are not finite are taken for zero."""
    library = import_faiss()
    library.omp_set_num_threads(torch.get_num_threads())
    points, queries = _one_length(rows)
    width = points.shape[1]
    clusters = max(1, min(math.isqrt(4 * len(points)), len(points) // ROWS_PER_CLUSTER))
    index = library.IndexIVFFlat(library.IndexFlatL2(width), width, clusters)
    index.cp.seed = seed % 2**31
    index.train(points)
    index.add(points)
    index.nprobe = PROBED
    found: NDArray[np.int64] = index.search(queries, count)[1]
    return torch.from_numpy(found)


def _one_length(rows: Tensor) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the points x' and the queries q', both of length one at most."""
    rows = rows.float().nan_to_num(0.0, 0.0, 0.0)
    rows = rows / rows.abs().max().clamp_min(torch.finfo(rows.dtype).tiny)
    squares = rows.square().sum(1)
    longest = squares.max().clamp_min(torch.finfo(rows.dtype).tiny)
    more = (1 - squares / longest).clamp_min(0).sqrt()
    points = torch.cat([rows / longest.sqrt(), more[:, None]], 1)
    queries = torch.cat([torch.nn.functional.normalize(rows), torch.zeros_like(more)[:, None]], 1)
    return points.numpy(), queries.numpy()


def search_recall(rows: Tensor, neighbour_rows: Tensor) -> float:
    """Return the share of the true neighbours, those of positive inner product, that a search
    found.

    It is exact for `CHECKED_ROWS` rows spread evenly. A row as near as the last true neighbour
    counts.
    """
    checked = torch.linspace(0, len(rows) - 1, min(CHECKED_ROWS, len(rows))).long()
    similar = rows[checked] @ rows.T
    kept = min(neighbour_rows.shape[1], len(rows))
    true = similar.topk(kept, dim=1).values
    last = true[:, -1:].clamp_min(torch.finfo(rows.dtype).tiny)
    wanted = (true >= last).sum(1)
    own = neighbour_rows[checked]
    got = similar.gather(1, own.clamp_min(0)).masked_fill(own < 0, 0.0)
    right = (got >= last * (1 - 1e-6)).sum(1)
    total = int(wanted.sum())
    return float(torch.minimum(right, wanted).sum()) / total if total else 1.0
