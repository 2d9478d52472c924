"""What else was tried beside two sums, on validation nodes of graphs that no table reports.

    SECUREFG_DATA=... python benchmarks/private_trials.py [--seeds 3] [--only TEXT]

Exact Gaussian noise for node epsilon 8 and 1 at delta 1/n, no channel. Graphs: class years at
Amherst (4 Louvain silos, k = 100) and Johns Hopkins (30 random silos, k = 6), and a drawn network
of six classes (10 random silos, k = 12). Test nodes are never looked at.
See docs/reference/private.md.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from audits.empirical_epsilon import mu_of_epsilon
from securefg.data.dataset import boolean_mask
from securefg.data.graph import Graph, Split, undirected
from securefg.methods.two_sums.features import (
    COARSE,
    CONSTANT,
    FINE,
    class_sums,
    cut_rows,
    feature_length,
    known_labels,
    link_parts,
    moments_of,
    moved_by_node,
    neighbour_moves,
    pack_moments,
    rows_of,
    unpack_moments,
)
from securefg.methods.two_sums.settings import Settings
from securefg.models.discriminant import CLEAR, class_scores, is_clear, solve_head
from securefg.runs.assembly import prepare
from securefg.settings.config import parse_config

Variant = Callable[["Trial"], Tensor]
"""Logits of every node."""


class Trial:
    """One graph, one budget, one draw of noise."""

    def __init__(self, graph: Graph, links: int, epsilon: float, seed: int) -> None:
        self.graph, self.links = graph, links
        self.mu = mu_of_epsilon(epsilon, 1 / graph.num_nodes)
        self.settings = Settings(links=links, scale=max(1.0, links / COARSE))
        self._rng = torch.Generator().manual_seed(seed)

    def noisy(self, value: Tensor, moved: float, share: float) -> tuple[Tensor, float]:
        """A release with a share of the budget: shares of mu^2 add up to one."""
        sigma = moved / (self.mu * math.sqrt(share))
        noise = torch.randn(value.shape, generator=self._rng, dtype=torch.float64)
        return value + sigma * noise, sigma

    def projection(self, share: float = 0.5, rates: bool = True) -> Tensor:
        sums, sigma = self.noisy(class_sums(self.graph), 1.0, share)
        return class_scores(sums, sigma, rates)

    def rows(self, share: float = 0.5) -> Tensor:
        return rows_of(self.graph, self.projection(share), self.settings)

    @property
    def labels(self) -> Tensor:
        return known_labels(self.graph)


def two_sums(t: Trial, share: float = 0.5, scale: float = 3.0, clear: bool | None = None) -> Tensor:
    t.settings = Settings(links=t.links, scale=max(1.0, t.links / scale))
    return _head(t, t.rows(share), moved_by_node(t.settings, t.links), 1 - share, clear=clear)


def by_rule(t: Trial, share: float) -> Tensor:
    """d0 as a run chooses it, with this share of the budget for the first sum."""
    width = 3 * t.graph.num_classes + 1
    numbers = width * (width + 1) / 2 + width * t.graph.num_classes
    t.settings = Settings(links=t.links, scale=max(1.0, t.links / FINE))
    sigma = moved_by_node(t.settings, t.links) / (t.mu * math.sqrt(1 - share))
    clear = int(t.graph.split.train.sum()) / math.sqrt(numbers) >= CLEAR * sigma
    return two_sums(t, share, FINE if clear else COARSE)


def features_only(t: Trial) -> Tensor:
    t.settings = Settings(links=t.links, graph=False)
    return _head(t, t.rows(), math.sqrt(2), 0.5)


def fourier(t: Trial) -> Tensor:
    """3 m random cosines of phi; the map's Lipschitz constant is that of its matrix."""
    rows = t.rows()
    count, rng = 3 * rows.shape[1], torch.Generator().manual_seed(1)
    weights = 1.5 * torch.randn(rows.shape[1], count, generator=rng).double()
    phase = 2 * math.pi * torch.rand(count, generator=rng).double()
    steep = float(torch.linalg.matrix_norm(weights, 2)) / math.sqrt(count)
    waves = (rows @ weights + phase).cos() / math.sqrt(count)
    wide = torch.cat([waves, torch.full((len(rows), 1), CONSTANT).double()], 1)
    wide = wide / math.hypot(1.0, CONSTANT)
    delta = steep * math.hypot(*link_parts(t.settings)) / feature_length() / t.settings.divisor
    moved = math.sqrt(2) + t.links * delta / math.hypot(1.0, CONSTANT) * math.sqrt(5)
    return _head(t, wide, moved, 0.5, CONSTANT / math.hypot(1.0, CONSTANT))


def two_hops(t: Trial) -> Tensor:
    """Neighbours' histograms summed once more. A node moves those of its k neighbours, and each of
    them at most k further ones: counted as if no degree were above k, in favour of the idea."""
    rows, d0, C = t.rows(), t.settings.divisor, t.graph.num_classes
    source, target = undirected(t.graph.edge_index, t.graph.num_nodes)
    start = rows.shape[1] - 1 - (rows.shape[1] - 1 - C) // 2 - C
    first = rows[:, start : start + C] * feature_length() / link_parts(t.settings)[0]
    second = cut_rows(torch.zeros_like(first).index_add_(0, target, first[source]) / d0)
    wide = torch.cat([rows[:, :-1], 0.5 * second / feature_length(), rows[:, -1:]], 1)
    grown = math.hypot(feature_length(), 0.5) / feature_length()
    hop = 0.5 / feature_length() / d0 / d0 * math.sqrt(5)
    moved = math.sqrt(2) + t.links * neighbour_moves(t.settings) / grown
    moved += (t.links**2 + t.links) * hop / grown
    return _head(t, wide / grown, moved, 0.5, CONSTANT / feature_length() / grown)


def newton(t: Trial, steps: int) -> Tensor:
    """Softmax regression with Boehning's bound: A once, then so many gradients."""
    rows, train = t.rows(0.4), t.graph.split.train
    phi, m = rows[train], rows.shape[1]
    second, sigma = t.noisy(phi.T @ phi, moved_by_node(t.settings, t.links), 0.2)
    second = (second + second.T) / 2
    values, vectors = torch.linalg.eigh(second)
    curvature = 0.5 * ((vectors * values.clamp_min(0)) @ vectors.T)
    curvature += (2 * sigma * math.sqrt(m) + 1) * torch.eye(m).double()
    return _descent(t, rows, steps, 0.4, lambda g: torch.linalg.solve(curvature, g))


def gradient_steps(t: Trial, steps: int, correlated: bool) -> Tensor:
    """DP-SGD by nodes, all in every step; correlated noise by the square-root factorisation."""
    rows = t.rows(0.4)
    rate = 40.0 / int(t.graph.split.train.sum()) / steps * 10
    return _descent(t, rows, steps, 0.6, lambda g: rate * g, correlated)


def _descent(
    t: Trial,
    rows: Tensor,
    steps: int,
    share: float,
    update: Callable[[Tensor], Tensor],
    correlated: bool = False,
) -> Tensor:
    """Gradients of the logistic loss; weights are kept to length 30, which bounds what p moves."""
    train = t.graph.split.train
    phi, y, longest = rows[train], t.labels[train], 30.0
    weights = torch.zeros(rows.shape[1], y.shape[1]).double()
    delta = math.hypot(*link_parts(t.settings)) / feature_length() / t.settings.divisor
    noise = _noises(steps, weights.shape, t, correlated)
    for step in range(steps):
        steep = min(float(torch.linalg.matrix_norm(weights, 2)), longest)
        moved = math.sqrt(2) + t.links * delta * (math.sqrt(2) + steep / 2)
        gradient = phi.T @ (y - (phi @ weights).softmax(1))
        sigma = moved * math.sqrt(1 if correlated else steps) / (t.mu * math.sqrt(share))
        weights = weights + update(gradient + sigma * noise[step])
        weights = weights * min(1.0, longest / float(weights.norm()))
    return rows @ weights


def _noises(steps: int, shape: torch.Size, t: Trial, correlated: bool) -> Tensor:
    """Independent, or C^-1 Z times the length of C's first column with C C = prefix sums."""
    drawn = torch.randn(steps, *shape, generator=t._rng, dtype=torch.float64)
    if not correlated:
        return drawn
    column = torch.tensor([math.comb(2 * j, j) / 4.0**j for j in range(steps)]).double()
    matrix = torch.stack([_shift(column, j) for j in range(steps)], 1)
    solved = torch.linalg.solve_triangular(matrix, drawn.reshape(steps, -1), upper=False)
    return float(column.norm()) * solved.reshape(drawn.shape)


def _shift(column: Tensor, by: int) -> Tensor:
    return torch.cat([torch.zeros(by).double(), column[: len(column) - by]])


def _head(
    t: Trial,
    rows: Tensor,
    moved: float,
    share: float,
    constant: float = CONSTANT / feature_length(),
    clear: bool | None = None,
) -> Tensor:
    noisy, sigma = t.noisy(pack_moments(moments_of(t.graph, rows)), moved, share)
    moments = unpack_moments(noisy, rows.shape[1])
    chosen = is_clear(moments, constant, sigma) if clear is None else clear
    weights, offsets = solve_head(moments, constant, sigma, chosen)
    return rows @ weights + offsets


VARIANTS: dict[str, Variant] = {
    "two sums, d0 = k/3, head by the rule": two_sums,
    "d0 = k/1.5": lambda t: two_sums(t, scale=1.5),
    "d0 = k/6": lambda t: two_sums(t, scale=6),
    "d0 = k/12": lambda t: two_sums(t, scale=12),
    "d0 by the rule, a tenth of the budget for the first sum": lambda t: by_rule(t, 0.1),
    "d0 by the rule, a quarter": lambda t: by_rule(t, 0.25),
    "d0 by the rule, half": lambda t: by_rule(t, 0.5),
    "d0 by the rule, three quarters": lambda t: by_rule(t, 0.75),
    "always the discriminant (LDA)": lambda t: two_sums(t, clear=True),
    "always regression": lambda t: two_sums(t, clear=False),
    "features alone": features_only,
    "random Fourier features": fourier,
    "two hops": two_hops,
    "logistic, 2 Newton steps": lambda t: newton(t, 2),
    "logistic, 5 Newton steps": lambda t: newton(t, 5),
    "DP gradient descent by nodes, 20 steps": lambda t: gradient_steps(t, 20, False),
    "the same with correlated noise": lambda t: gradient_steps(t, 20, True),
}


def dealt(name: str, partition: str, num_clients: int, seed: int, share: float = 0.75) -> Graph:
    config = {
        "method": {"name": "two_sums"},
        "data": {"name": name, "split": {"kind": "shares", "train_share": share, "val_share": 0.1}},
        "partition": {"name": partition, "num_clients": num_clients},
        "training": {"rounds": 1, "patience": None, "final_model": "last"},
        "seed": seed,
    }
    return prepare(parse_config(config)).union


def drawn(seed: int) -> Graph:
    """3000 people of six classes, 12 links within the silo, three in four to their own class, and
    five answers each, of which two lean to the class."""
    rng, count, classes = np.random.default_rng(seed), 3000, 6
    labels = rng.integers(classes, size=count)
    silo = rng.integers(10, size=count)
    pairs = rng.integers(count, size=(2, 40 * count * 6))
    like = labels[pairs[0]] == labels[pairs[1]]
    kept = (silo[pairs[0]] == silo[pairs[1]]) & (
        rng.random(pairs.shape[1]) < np.where(like, 1.0, 0.07)
    )
    edges = pairs[:, kept][:, : 6 * count]
    columns = []
    for answer in range(5):
        value = rng.integers(30, size=count)
        leaning = rng.random(count) < (0.25 if answer < 2 else 0)
        columns.append(
            np.eye(30)[np.where(leaning, 5 * labels + rng.integers(5, size=count), value)]
        )
    order = torch.from_numpy(rng.permutation(count))
    train, val = boolean_mask(order[:2250], count), boolean_mask(order[2250:2550], count)
    return Graph(
        name="drawn",
        features=torch.from_numpy(np.concatenate(columns, 1)).float(),
        edge_index=undirected(torch.from_numpy(edges), count),
        labels=torch.from_numpy(labels),
        split=Split(train, val, ~(train | val)),
        num_classes=classes,
    )


GRAPHS: dict[str, tuple[Callable[[int], Graph], int]] = {
    "Amherst, 4 silos": (lambda seed: dealt("amherst41", "louvain", 4, seed), 100),
    "Johns Hopkins, 30 silos": (lambda seed: dealt("johnshopkins55", "random", 30, seed), 6),
    "drawn, 10 silos": (drawn, 12),
}

OTHERS: dict[str, tuple[Callable[[int], Graph], int]] = {
    "citeseer": (lambda seed: dealt("citeseer", "louvain", 10, seed, 0.6), 5),
}
"""Asked for by name alone: many features, for the shares of the budget."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--draws", type=int, default=3, help="of noise, for every seed")
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), choices=[*GRAPHS, *OTHERS])
    parser.add_argument("--only", default="", help="variants with this text in their name")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[8.0, 1.0])
    given = parser.parse_args()
    seeds, draws = given.seeds, given.draws
    variants = {n: v for n, v in VARIANTS.items() if given.only in n}
    torch.set_num_threads(1)
    columns = [(name, epsilon) for name in given.graphs for epsilon in given.epsilons]
    accuracies_by_name: dict[str, list[list[float]]] = {
        name: [[] for _ in columns] for name in variants
    }
    for seed in range(seeds):
        chosen = {name: {**GRAPHS, **OTHERS}[name] for name in given.graphs}
        graphs = {name: (make(seed + 100), links) for name, (make, links) in chosen.items()}
        for name, variant in variants.items():
            for place, (graph, epsilon) in enumerate(columns):
                for draw in range(draws):
                    trial = Trial(*graphs[graph], epsilon, 1000 * seed + draw)
                    accuracies_by_name[name][place].append(accuracy(trial.graph, variant(trial)))
    print("| variant | " + " | ".join(f"{g}, epsilon {e:g}" for g, e in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name, values in accuracies_by_name.items():
        print(f"| {name} | " + " | ".join(f"{np.mean(v):.3f}" for v in values) + " |")
    spread = np.mean([np.std(v) for values in accuracies_by_name.values() for v in values])
    print(f"one draw scatters by {spread:.3f}; every figure is a mean of {draws * seeds}")


def accuracy(graph: Graph, logits: Tensor) -> float:
    val = graph.split.val
    return float((logits[val].argmax(1) == graph.labels[val]).double().mean())


if __name__ == "__main__":
    main()
