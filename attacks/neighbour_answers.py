"""What a model says of the nodes around a node."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import log_softmax

from attacks.base import Array


def said_around(
    logits: NDArray[np.floating], edges: NDArray[np.int64], nodes: NDArray[np.int64]
) -> Array:
    """(n, C): the mean of log p over every node's neighbours; its own where it has none."""
    size = len(logits)
    links = sparse.csr_matrix((np.ones(edges.shape[1]), (edges[0], edges[1])), shape=(size, size))
    links = (links + links.T)[nodes]
    links.data[:] = 1.0
    counts, logs = np.asarray(links.sum(1)), log_softmax(np.asarray(logits, np.float64), axis=1)
    found: Array = np.where(counts > 0, (links @ logs) / np.maximum(counts, 1), logs[nodes])
    return found
