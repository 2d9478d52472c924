"""The largest inner products between rows, found approximately by faiss, with the recall measured.

A search for inner products is one for distances once every row has a coordinate more that brings it
to one length (Bachrach et al. 2014): |q' - x'|^2 = |q'|^2 + M^2 - 2 q.x with x' = (x, sqrt(M^2 -
|x|^2)) and q' = (q, 0). The rows x' are clustered (an inverted file), and a query is compared with
the rows of the `PROBED` nearest of 2 sqrt(N) clusters: time grows with N^1.5.
"""

from __future__ import annotations

import importlib
import math
from types import ModuleType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from securefg.foundation.errors import ConfigError

PROBED = 64
ROWS_PER_CLUSTER = 39  # fewer, and faiss warns that its clusters are poor
CHECKED_ROWS = 256


def faiss() -> ModuleType:
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise ConfigError(
            "method.exact_nodes: a pseudo graph over more nodes needs faiss: pip install "
            "'securefg[faiss]'; without it: a larger exact_nodes (time grows with its square)"
        ) from error


def near_rows(rows: Tensor, count: int, seed: int) -> Tensor:
    """For every row the numbers of up to `count` others or itself, by largest inner product; -1
    where fewer were found. Rows that are not finite are taken for zero."""
    library = faiss()
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
    """The points x' and the queries q', both of length one at most."""
    rows = rows.float().nan_to_num(0.0, 0.0, 0.0)
    rows = rows / rows.abs().max().clamp_min(torch.finfo(rows.dtype).tiny)
    squares = rows.square().sum(1)
    longest = squares.max().clamp_min(torch.finfo(rows.dtype).tiny)
    more = (1 - squares / longest).clamp_min(0).sqrt()
    points = torch.cat([rows / longest.sqrt(), more[:, None]], 1)
    queries = torch.cat([torch.nn.functional.normalize(rows), torch.zeros_like(more)[:, None]], 1)
    return points.numpy(), queries.numpy()


def recall(rows: Tensor, found: Tensor) -> float:
    """The share of the true neighbours, those of positive inner product, that a search found.

    Exact for `CHECKED_ROWS` rows spread evenly; one as near as the last true neighbour counts.
    """
    checked = torch.linspace(0, len(rows) - 1, min(CHECKED_ROWS, len(rows))).long()
    similar = rows[checked] @ rows.T
    kept = min(found.shape[1], len(rows))
    true = similar.topk(kept, dim=1).values
    last = true[:, -1:].clamp_min(torch.finfo(rows.dtype).tiny)
    wanted = (true >= last).sum(1)
    own = found[checked]
    got = similar.gather(1, own.clamp_min(0)).masked_fill(own < 0, 0.0)
    right = (got >= last * (1 - 1e-6)).sum(1)
    total = int(wanted.sum())
    return float(torch.minimum(right, wanted).sum()) / total if total else 1.0
