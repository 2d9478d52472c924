"""Classes of nodes from the graph and a few known labels: a regression on spectral coordinates.

    A_hat = D^-1/2 (A + I) D^-1/2 = U diag(v) U^T,    r_i = row i of U diag(a / (1 - (1 - a) v))

over the largest v of the largest component. r is at length 1. Personalised propagation weighs
eigenvectors by the same factors, but sums labels where this fits them. The product of both was
better than either on most graphs (docs/reference/private_users.md).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import fmin_l_bfgs_b
from scipy.sparse import csr_array, diags_array, eye_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh
from torch import Tensor

Floats = NDArray[np.float64]

DENSE: Final = 256
"""Up to this many nodes all eigenvectors are computed."""

MOST_STEPS: Final = 100
LEAST: Final = 1e-4
"""A share of a class is kept above this before shares are multiplied."""


def spectral_coordinates(edge_index: Tensor, num_nodes: int, count: int, teleport: float) -> Floats:
    """Return r of every node, (n, count), or fewer columns if the largest component has fewer
    nodes. Nodes outside that component have zeros.

    Each component has an eigenvector of value 1. Over all of them the largest eigenvectors would
    not be determined.
    """
    adjacency = _normalise(edge_index, num_nodes)
    _, parts = connected_components(adjacency, directed=False)
    inside = np.flatnonzero(parts == np.bincount(parts).argmax())
    connected = csr_array(adjacency[inside][:, inside])
    if len(inside) <= max(DENSE, 2 * count):
        values, vectors = np.linalg.eigh(connected.toarray())
    else:
        find: Any = eigsh
        values, vectors = find(connected, k=count, which="LA", v0=np.ones(len(inside)))
    values, vectors = values[-count:], vectors[:, -count:]
    rows = np.zeros((num_nodes, len(values)))
    rows[inside] = vectors * (teleport / (1 - (1 - teleport) * values))
    unit: Floats = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return unit


def _normalise(edge_index: Tensor, num_nodes: int) -> csr_array:
    """Return A_hat. A link counts once, in both directions."""
    source, target = edge_index.cpu().numpy()
    listed = csr_array((np.ones(len(source)), (source, target)), shape=(num_nodes, num_nodes))
    links = listed + listed.T
    links.data[:] = 1.0
    links = csr_array(links + eye_array(num_nodes))
    scale = diags_array(np.asarray(links.sum(1)).reshape(-1) ** -0.5)
    return csr_array(scale @ links @ scale)


def regress_classes(rows: Floats, labels: Tensor, num_classes: int) -> Tensor:
    """Return class shares of all nodes, (n, C), by logistic regression on rows and a constant.

    labels  (n,), -1 where the label is not known
    """
    known = (labels >= 0).cpu().numpy()
    wanted = np.eye(num_classes)[labels.cpu().numpy()[known]]
    wide = np.hstack([rows, np.ones((len(rows), 1))])
    known_rows, shape = wide[known], (wide.shape[1], num_classes)

    def objective(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(shape)
        shares = _softmax(known_rows @ weights)
        value = -np.log(np.maximum((shares * wanted).sum(1), 1e-300)).sum() + 0.5 * flat @ flat
        return float(value), (known_rows.T @ (shares - wanted) + weights).ravel()

    fit: Any = fmin_l_bfgs_b
    found, _, _ = fit(objective, np.zeros(shape[0] * shape[1]), maxiter=MOST_STEPS)
    return torch.from_numpy(_softmax(wide @ found.reshape(shape)))


def _softmax(logits: Floats) -> Floats:
    raised = np.exp(logits - logits.max(1, keepdims=True))
    shares: Floats = raised / raised.sum(1, keepdims=True)
    return shares


def multiply_shares(shares: Tensor, others: Tensor) -> Tensor:
    """Return the product of class shares, (n, C), each kept above `LEAST`, at a sum of 1."""
    product = shares.clamp_min(LEAST) * others.clamp_min(LEAST)
    divided: Tensor = product / product.sum(1, keepdim=True)
    return divided
