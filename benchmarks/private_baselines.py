"""GAP- and ProGAP-like baselines: one owner, noisy aggregates, so that predictions are covered too.

After Sajadmanesh et al., "GAP: Differentially Private Graph Neural Networks with Aggregation
Perturbation" (USENIX Security 2023), and Sajadmanesh and Gatica-Perez, "ProGAP" (WSDM 2024). Every
hop releases, for every node, the sum of its neighbours' unit rows with Gaussian noise; with degrees
of at most D one node moves all these sums together by sqrt(D). What is in favour of the baselines:
the cap on degrees is taken for stable when a node goes, encoder and heads are the closed forms of
`two_sums` in place of DP-SGD, and D is the best of three on validation nodes, at no cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from scipy.optimize import brentq
from torch import Tensor
from torch.nn.functional import normalize

from securefg.data.graph import Graph, undirected
from securefg.methods.two_sums.features import class_sums, known_labels, own_rows
from securefg.models.discriminant import Moments, class_scores, is_clear, solve_head
from securefg.privacy.accountants import Step, tightest

DEGREES = (10, 30, 100)
HOPS = 2


class Budget:
    """Releases by their share of the budget, with one multiplier for all: shares of 1 / z^2."""

    def __init__(self, epsilon: float, delta: float, shares: Sequence[float], seed: int) -> None:
        assert math.isclose(sum(shares), 1)

        def excess(log_z: float) -> float:
            steps = tuple(Step(math.exp(log_z) / math.sqrt(share), 1) for share in shares)
            return tightest(steps, delta) - epsilon

        self._z = math.exp(brentq(excess, math.log(1e-3), math.log(1e5)))
        self._left = list(shares)
        self._rng = torch.Generator().manual_seed(seed)

    def release(self, value: Tensor, moved: float) -> tuple[Tensor, float]:
        """With the next share; a release more than planned fails."""
        sigma = self._z / math.sqrt(self._left.pop(0)) * moved
        noise = torch.randn(value.shape, generator=self._rng, dtype=torch.float64)
        return value + sigma * noise, sigma


def gap_like(graph: Graph, epsilon: float, delta: float, degree: int, seed: int) -> Tensor:
    """Encoder, two hops of its rows, one head on all of them. Logits of every node."""
    budget = Budget(epsilon, delta, (0.15, 0.35, 0.35, 0.15), seed)
    rows = [_encoded(graph, budget)]
    links = capped(graph, degree, seed)
    for _ in range(HOPS):
        summed, _ = budget.release(aggregate(rows[-1], links), math.sqrt(degree))
        rows.append(normalize(summed, dim=1))
    return _classified(graph, torch.cat(rows, 1), budget)


def progap_like(graph: Graph, epsilon: float, delta: float, degree: int, seed: int) -> Tensor:
    """A head at every depth; what the next hop sums up is what the last head says."""
    budget = Budget(epsilon, delta, (0.15, 0.1, 0.3, 0.1, 0.25, 0.1), seed)
    rows, links = [_encoded(graph, budget)], capped(graph, degree, seed)
    for _ in range(HOPS):
        said = _classified(graph, torch.cat(rows, 1), budget).softmax(1) - 1 / graph.num_classes
        summed, _ = budget.release(aggregate(normalize(said, dim=1), links), math.sqrt(degree))
        rows.append(normalize(summed, dim=1))
    return _classified(graph, torch.cat(rows, 1), budget)


def _encoded(graph: Graph, budget: Budget) -> Tensor:
    sums, noise = budget.release(class_sums(graph), 1.0)
    return normalize(own_rows(graph) @ class_scores(sums, noise, rates=True), dim=1)


def capped(graph: Graph, degree: int, seed: int) -> Tensor:
    """At most `degree` links out of every node, drawn at random."""
    source, target = undirected(graph.edge_index, graph.num_nodes)
    rng = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(source), generator=rng)
    order = order[torch.argsort(source[order], stable=True)]
    first = torch.searchsorted(source[order].contiguous(), torch.arange(graph.num_nodes))
    place = torch.arange(len(order)) - first[source[order]]
    kept = order[place < degree]
    return torch.stack([source[kept], target[kept]])


def aggregate(rows: Tensor, links: Tensor) -> Tensor:
    return torch.zeros_like(rows).index_add_(0, links[1], rows[links[0]])


def _classified(graph: Graph, rows: Tensor, budget: Budget) -> Tensor:
    """A head on rows of length at most 1, of which a node moves its own alone: sqrt 2."""
    constant = 0.5
    wide = torch.cat([rows / math.sqrt(rows.shape[1] / graph.num_classes), rows[:, :1] * 0], 1)
    wide[:, -1] = constant
    wide = wide / math.hypot(1.0, constant)
    train, at = graph.split.train, constant / math.hypot(1.0, constant)
    phi, labels = wide[train], known_labels(graph)[train]
    upper = torch.triu_indices(wide.shape[1], wide.shape[1])
    once = torch.where(upper[0] == upper[1], 1.0, math.sqrt(2)).double()
    second = (phi.T @ phi)[upper[0], upper[1]] * once
    sums = torch.cat([second, (phi.T @ labels).flatten()])
    noisy, sigma = budget.release(sums, math.sqrt(2))
    matrix = torch.zeros(wide.shape[1], wide.shape[1], dtype=torch.float64)
    matrix[upper[0], upper[1]] = noisy[: len(once)] / once
    moments = Moments(matrix + matrix.triu(1).T, noisy[len(once) :].reshape(wide.shape[1], -1))
    weights, offsets = solve_head(moments, at, sigma, is_clear(moments, at, sigma))
    return wide @ weights + offsets


def best_degree(graph: Graph, method: str, epsilon: float, delta: float, seed: int) -> float:
    """Test accuracy at the degree that validation nodes favour."""
    run = {"GAP-like": gap_like, "ProGAP-like": progap_like}[method]
    tried = [run(graph, epsilon, delta, degree, seed) for degree in DEGREES]
    best = max(tried, key=lambda logits: accuracy(graph, logits, graph.split.val))
    return accuracy(graph, best, graph.split.test)


def accuracy(graph: Graph, logits: Tensor, nodes: Tensor) -> float:
    return float((logits[nodes].argmax(1) == graph.labels[nodes]).double().mean())
