"""Kriging: a node's row foretold from its neighbours' rows, the prior of those who know the graph.

This is simple kriging. Rows of features are the mean of the known rows, plus a Gaussian field over
the graph, plus a part that is a node's own. The field's covariance is the walk kernel sum_k DECAY^k
S^k, scaled to ones on its diagonal, with S = D^-1/2 A D^-1/2. The size of the node's own part, the
nugget, is the value at which known rows are best foretold from each other, each left out in turn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from attacks.base import Array

KNOWN_SHARE = 0.3
MANY_KNOWN = 800
DECAY = 0.95
STEPS = 16
"""The longest walks; an even number keeps the kernel positive."""
MANY_NUMBERS = 10_000_000
"""Walks from all rows to so many nodes are followed at most."""
NUGGETS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1e6)
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Kriged:
    """A pair of predictions.

    wanted  the rows foretold of the wanted nodes
    known   the row foretold of every known node without itself
    """

    wanted: Array
    known: Array


def krige_rows(rows: Array, known: Ids, wanted: Ids, edges: Ids | None, num_nodes: int) -> Kriged:
    """Foretell rows from the rows of known nodes. Without edges everybody's guess is their mean."""
    mean, rest = rows.mean(0), rows - rows.mean(0)
    if edges is None:
        # Without itself a node's mean is the mean less a trace of its own row.
        return Kriged(np.tile(mean, (len(wanted), 1)), mean - rest / max(len(rows) - 1, 1))
    both = walk_kernel(np.concatenate([known, wanted]), edges, num_nodes)
    among, across = both[: len(known), : len(known)], both[len(known) :, : len(known)]
    sizes, vectors = np.linalg.eigh(among)
    turned, squares = vectors.T @ rest, vectors**2

    def left_out(nugget: float) -> tuple[Array, Array]:
        weights = vectors @ (turned / (sizes + nugget)[:, None])
        return weights, weights / (squares @ (1 / (sizes + nugget)))[:, None]

    best = min(NUGGETS, key=lambda nugget: float((left_out(nugget)[1] ** 2).sum()))
    weights, errors = left_out(best)
    return Kriged(mean + across @ weights, rows - errors)


def known_apart(nodes: Ids, wanted: Ids, rng: np.random.Generator) -> Ids:
    """Return nodes whose rows are known from elsewhere, none of them wanted."""
    apart = rng.permutation(np.setdiff1d(nodes, wanted))
    return apart[: min(MANY_KNOWN, int(KNOWN_SHARE * len(nodes)))]


def walk_kernel(nodes: Ids, edges: Ids, num_nodes: int) -> Array:
    """Return the kernel between these nodes, along walks among the nodes around them."""
    around = _nodes_around(nodes, edges, num_nodes)
    place = np.full(num_nodes, -1)
    place[around] = np.arange(len(around))
    inside = place[edges]
    step = _normalised_matrix(inside[:, (inside >= 0).all(0)], len(around))
    node_places, walks = place[nodes], np.eye(len(around))[place[nodes]]
    node_kernel = walks[:, node_places].copy()
    for power in range(1, STEPS + 1):
        walks = (step @ walks.T).T
        node_kernel += DECAY**power * walks[:, node_places]
    spread = np.sqrt(np.diag(node_kernel))
    scaled: Array = node_kernel / spread[:, None] / spread
    return scaled


def _nodes_around(nodes: Ids, edges: Ids, num_nodes: int) -> Ids:
    """Return as many hops of neighbours as can be held, beginning with the nodes themselves."""
    inside = np.zeros(num_nodes, bool)
    inside[nodes] = True
    while True:
        wider = inside.copy()
        wider[edges[1][inside[edges[0]]]] = True
        wider[edges[0][inside[edges[1]]]] = True
        if wider.sum() == inside.sum() or wider.sum() * len(nodes) > MANY_NUMBERS:
            return np.flatnonzero(inside)
        inside = wider


def _normalised_matrix(edges: Ids, num_nodes: int) -> sparse.csr_matrix:
    """Return D^-1/2 A D^-1/2, with an edge of either direction counted once."""
    source, target = edges[:, edges[0] != edges[1]]
    ones = np.ones(2 * len(source))
    ends = (np.concatenate([source, target]), np.concatenate([target, source]))
    links = sparse.csr_matrix((ones, ends), shape=(num_nodes, num_nodes))
    links.data[:] = 1.0
    scale = sparse.diags(1 / np.sqrt(np.maximum(np.asarray(links.sum(1)).ravel(), 1.0)))
    return sparse.csr_matrix(scale @ links @ scale)
