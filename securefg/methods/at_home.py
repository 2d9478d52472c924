"""Predictions of one party for its own nodes: from its own graph, and a common model's scores.

    F0 = softmax(o + W^T r)                       W: logistic regression on the own training nodes
    F  = (1 - s) F0 + s mean of F over neighbours    15 times; training nodes keep their label

o is what a common model says of a node, as logarithms, or 0. With 0 this is training alone, so both
are compared with equal care. Nothing of it leaves the party, and it costs no budget. A party with
few labels of its own takes o as it is, with W = 0. A party whose own validation nodes clearly
favour training alone predicts alone: a common model that noise has spoilt harms nobody who sees it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import fmin_l_bfgs_b
from scipy.sparse import csr_array, diags_array, hstack
from torch import Tensor

from securefg.data.graph import Graph
from securefg.methods.two_sums.features import known_labels, links_of, own_rows

Floats = NDArray[np.float64]

FEW: Final = 30
"""From so many own training labels on, a party fits W around a common model's scores."""

LOOSE, TIGHT = 10.0, 1.0
"""Inverse weight of |W|^2 / 2, without and with a common model."""

SPREAD: Final = 0.5
STEPS: Final = 15
COUNT_SCALE: Final = 3.0
MOST_STEPS: Final = 60
LEAST: Final = 1e-4
"""Probabilities are kept above this before their logarithm is taken."""


CLEARLY: Final = 2.0
"""Standard errors by which a prediction must pass the default."""


def predict_best(graph: Graph, scores: Tensor) -> Tensor:
    """Return log-probabilities of every node with a common model's scores, or without them if the
    party's own validation nodes clearly favour that."""
    found = [predict_with(graph, scores), predict_alone(graph)]
    return found[choose_clearly([hits_of(graph, one) for one in found])]


def hits_of(graph: Graph, logits: Tensor) -> Tensor:
    """Return for every validation node whether it is right."""
    val = graph.split.val
    return logits[val].argmax(1) == graph.labels[val]


def choose_clearly(hits: Sequence[Tensor]) -> int:
    """Return the place of the candidate that is furthest above the first, or 0 if none is clearly
    better: of n nodes on which exactly one of the two is right, it is right on n/2 + sqrt(n) or
    more (McNemar)."""

    def lead(other: Tensor) -> float:
        differ = int((other != hits[0]).sum())
        return float(other.sum() - hits[0].sum()) / math.sqrt(max(differ, 1))

    leads = torch.tensor([lead(other) for other in hits])
    best = int(leads.argmax())
    return best if float(leads[best]) > CLEARLY else 0


def predict_alone(graph: Graph, share: float = SPREAD) -> Tensor:
    """Return log-probabilities of every node from the party's own graph, (n, C)."""
    start = np.zeros((graph.num_nodes, graph.num_classes))
    return _to_logarithms(spread_over_links(graph, _fit_regression(graph, start, LOOSE), share))


def predict_with(graph: Graph, scores: Tensor, few: int = FEW) -> Tensor:
    """Return log-probabilities of every node from a common model's scores and the own graph.

    few  from so many own training labels on, they correct the scores
    """
    offset = scores.double().numpy()
    first = _softmax_rows(offset)
    if int(graph.split.train.sum()) >= few:
        logs = np.log(np.maximum(first, LEAST))
        first = _fit_regression(graph, logs - logs.mean(1, keepdims=True), TIGHT)
    return _to_logarithms(spread_over_links(graph, first))


def spread_over_links(graph: Graph, start: Floats, share: float = SPREAD) -> Floats:
    """Return probabilities after they were averaged over neighbours. Known labels stay."""
    links = links_of(graph)
    degrees = np.maximum(_row_sums(links), 1.0)[:, None]
    labels, is_known = known_labels(graph).numpy(), graph.split.train.numpy()[:, None]
    first = np.where(is_known, labels, start)
    spread_shares = first
    for _ in range(STEPS):
        mixed = (1 - share) * first + share * (links @ spread_shares) / degrees
        spread_shares = np.where(is_known, labels, mixed)
    result: Floats = spread_shares
    return result


def describe_surroundings(graph: Graph) -> csr_array:
    """Return r of every node: its features, its neighbours' labels and their mean features."""
    links, own_features = links_of(graph), csr_array(own_rows(graph).numpy())
    counts = links @ known_labels(graph).numpy()
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1.0)
    mean = diags_array(1 / np.maximum(_row_sums(links), 1.0)) @ (links @ own_features)
    ones = np.ones((graph.num_nodes, 1))
    labels = np.hstack([shares, np.sqrt(counts) / COUNT_SCALE, ones])
    return csr_array(hstack([own_features, mean, csr_array(labels)]))


def _fit_regression(graph: Graph, offset: Floats, loose: float) -> Floats:
    """Return probabilities of all nodes after logistic regression around an offset."""
    train = graph.split.train.numpy()
    if not train.any():
        return _softmax_rows(offset)
    rows = describe_surroundings(graph)
    known_rows, labels = rows[train], known_labels(graph).numpy()[train]
    shape = rows.shape[1], graph.num_classes
    penalty = np.full((shape[0], 1), 1 / loose)
    penalty[-1] = 0.01  # the constant

    def objective(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(shape)
        logits = known_rows @ weights + offset[train]
        logits -= logits.max(1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(1, keepdims=True))
        value = -(logits * labels).sum() + 0.5 * (penalty * weights**2).sum()
        slope = known_rows.T @ (np.exp(logits) - labels) + penalty * weights
        return float(value), slope.ravel()

    fit: Any = fmin_l_bfgs_b  # with its slope in the second place
    found, _, _ = fit(objective, np.zeros(shape[0] * shape[1]), maxiter=MOST_STEPS)
    return _softmax_rows(rows @ found.reshape(shape) + offset)


def _row_sums(links: csr_array) -> Floats:
    sums: Floats = np.asarray(links.sum(1), np.float64).reshape(-1)
    return sums


def _softmax_rows(logits: Floats) -> Floats:
    raised = np.exp(logits - logits.max(1, keepdims=True))
    shares: Floats = raised / raised.sum(1, keepdims=True)
    return shares


def _to_logarithms(shares: Floats) -> Tensor:
    return torch.from_numpy(np.log(np.maximum(shares, LEAST)))
