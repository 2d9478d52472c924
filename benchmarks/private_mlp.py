"""A perceptron without a graph, under noisy gradient descent: the baseline DP-MLP of every setting.

    SECUREFG_DATA=... python benchmarks/private_mlp.py [--only TEXT] [--seeds 3]

One owner has all rows, so this is what silos would reach at best without links. Every step takes
the gradients of all training nodes, each cut to length 1, and adds Gaussian noise to their sum.
Epsilon is per node for all steps together, with any number of links. It covers predictions too, but
for a node's own row. The comparison is in favour of the baseline: its noise is exact and needs no
channel, and width, steps and rate are the best of eight on validation nodes, at no cost. Rows go to
the file of `private_settings.py`.
"""

from __future__ import annotations

import argparse
import itertools
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from private_settings import SETTINGS, STORE, Setting, seeds_of
from scipy.sparse import csr_array
from sklearn.metrics import roc_auc_score
from stored_runs import CONFIGS, Row, Store, code_version

from audits.empirical_epsilon import mu_of_epsilon
from securefg.data.graph import Graph
from securefg.methods.two_sums.features import known_labels, own_rows
from securefg.runs.assembly import prepare
from securefg.settings.config import load_config

Floats = NDArray[np.float64]
NAME = "DP-MLP, one owner, no links"
CLIP = 1.0
WIDTHS, STEPS, RATES = (0, 64), (40, 150), (0.02, 0.1)


@dataclass(frozen=True)
class Choice:
    """A width of the hidden layer (0: none), a number of steps, and Adam's rate."""

    width: int
    steps: int
    rate: float


class Perceptron:
    """Weights of one or two layers, with gradients that are cut one by one."""

    def __init__(self, rows: csr_array, num_classes: int, width: int, seed: int) -> None:
        self._rows, rng = rows, np.random.default_rng(seed)
        sizes = [rows.shape[1], *([width] if width else []), num_classes]
        self.layers = [
            (rng.normal(size=(a, b)) * (math.sqrt(1 / a) if a == width else 0.1), np.zeros(b))
            for a, b in itertools.pairwise(sizes)
        ]
        if not width:
            self.layers = [(weights * 0, offsets) for weights, offsets in self.layers]

    def logits(self) -> Floats:
        """Return the scores of every node."""
        return self._forward()[-1]

    def _forward(self) -> list[Floats]:
        found = [self._rows @ self.layers[0][0] + self.layers[0][1]]
        for weights, offsets in self.layers[1:]:
            found.append(np.tanh(found[-1]) @ weights + offsets)
        return found

    def clipped_sums(self, labels: Floats, train: NDArray[np.bool_]) -> list[tuple[Floats, Floats]]:
        """Return the sum of the training nodes' gradients, each of length at most `CLIP`."""
        values = self._forward()
        slopes = [(_softmax(values[-1]) - labels) * train[:, None]]
        lengths = np.asarray(self._rows.power(2).sum(1)).reshape(-1)
        if len(self.layers) == 2:
            hidden = np.tanh(values[0])
            slopes.insert(0, (slopes[0] @ self.layers[1][0].T) * (1 - hidden**2))
            squares = (slopes[0] ** 2).sum(1) * (lengths + 1)
            squares += (slopes[1] ** 2).sum(1) * ((hidden**2).sum(1) + 1)
        else:
            squares = (slopes[0] ** 2).sum(1) * (lengths + 1)
        cut = np.minimum(1, CLIP / np.sqrt(np.maximum(squares, 1e-24)))[:, None]
        slopes = [slope * cut for slope in slopes]
        sums = [(self._rows.T @ slopes[0], slopes[0].sum(0))]
        if len(self.layers) == 2:
            sums.append((hidden.T @ slopes[1], slopes[1].sum(0)))
        return sums


def _softmax(logits: Floats) -> Floats:
    raised: Floats = np.exp(logits - logits.max(1, keepdims=True))
    return raised / raised.sum(1, keepdims=True)


def train_privately(
    graph: Graph, epsilon: float, delta: float, choice: Choice, seed: int
) -> Floats:
    """Return the scores of every node after all steps, which cost epsilon together."""
    rows, labels = csr_array(own_rows(graph).numpy()), known_labels(graph).numpy()
    is_training, rng = graph.split.train.numpy(), np.random.default_rng(seed + 1)
    model = Perceptron(rows, graph.num_classes, choice.width, seed)
    stddev = CLIP * math.sqrt(choice.steps) / mu_of_epsilon(epsilon, delta)
    moments = [
        [(np.zeros_like(part), np.zeros_like(part)) for part in pair] for pair in model.layers
    ]
    for step in range(1, choice.steps + 1):
        sums = model.clipped_sums(labels, is_training)
        layers = []
        for place, (pair, slopes) in enumerate(zip(model.layers, sums, strict=True)):
            parts = []
            for side, (value, slope) in enumerate(zip(pair, slopes, strict=True)):
                noisy = (slope + stddev * rng.normal(size=slope.shape)) / is_training.sum()
                first, second = moments[place][side]
                first, second = 0.9 * first + 0.1 * noisy, 0.99 * second + 0.01 * noisy**2
                moments[place][side] = first, second
                size = np.sqrt(second / (1 - 0.99**step)) + 1e-8
                parts.append(value - choice.rate * first / (1 - 0.9**step) / size)
            layers.append((parts[0], parts[1]))
        model.layers = layers
    return model.logits()


def share_right(graph: Graph, logits: Floats, part: torch.Tensor) -> float:
    """Return the accuracy on a part of the nodes."""
    nodes = part.numpy()
    return float((logits[nodes].argmax(1) == graph.labels.numpy()[nodes]).mean())


def best_row(graph: Graph, epsilon: float, delta: float, seed: int) -> Row:
    """Return the figures of the choice that validation nodes favour."""
    choices = [Choice(*one) for one in itertools.product(WIDTHS, STEPS, RATES)]
    found = [train_privately(graph, epsilon, delta, one, seed) for one in choices]
    logits = max(found, key=lambda one: share_right(graph, one, graph.split.val))
    test, scores = graph.split.test.numpy(), {}
    if graph.num_classes == 2:
        margins = (logits[:, 1] - logits[:, 0])[test]
        scores["roc_auc"] = float(roc_auc_score(graph.labels.numpy()[test], margins))
    right = share_right(graph, logits, graph.split.test)
    return {"test": right, "home": right, "scores": scores}


def key_of(name: str, epsilon: float, seed: int) -> str:
    """Return the place of a row in the store."""
    return f"private_mlp, {name}, {epsilon:g}, {seed}"


def store_rows(name: str, setting: Setting, store: Store) -> None:
    """Train where a row is missing."""
    for seed in seeds_of(setting):
        wanted = [e for e in setting.epsilons if store.kept(key_of(name, e, seed)) is None]
        if not wanted:
            continue
        changes = [*setting.base, "centralised=true", "privacy={}", f"seed={seed}"]
        config = load_config(CONFIGS / f"{setting.config}.yaml", changes)
        delta = load_config(CONFIGS / f"{setting.config}.yaml", list(setting.base)).privacy.delta
        graph = prepare(config).union
        for epsilon in wanted:
            row = best_row(graph, epsilon, delta, seed)
            store.keep(key_of(name, epsilon, seed), {**row, "seed": seed, "code": code_version()})
            print(f"{name}: {NAME}, {epsilon:g}, seed {seed}: {row['test']:.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--store", type=Path, default=STORE)
    parser.add_argument("--only", default="", help="settings with this text in their name")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name, setting in SETTINGS.items():
        if given.only.lower() in name.lower():
            store_rows(name, setting, Store(given.store))


if __name__ == "__main__":
    main()
