"""One release per user in place of a latent per round: what is left of nFedGNN's data under noise.

    SECUREFG_DATA=FOLDER python benchmarks/private_users.py

The server of nFedGNN has the graph and 140 labels. Every user sends its features once, projected to
q numbers of length at most 1, with Gaussian noise for one user's epsilon (removed or added, delta
1e-5). The server smooths what it got over the graph (personalised propagation), fits a logistic
regression to the known labels, and adds the answers to those of label propagation, which needs no
user at all; regularisation and the weight of the sum are chosen by validation nodes. Test accuracy.
"""

from __future__ import annotations

import argparse
import math
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from private_baselines import Budget
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from securefg.data.graph import Graph
from securefg.methods.label_propagation.algorithm import LEAST, known_rows
from securefg.methods.two_sums.features import cut_rows, own_rows
from securefg.models.appnp import propagate_hidden
from securefg.models.gcn import normalized_adjacency
from securefg.runs.assembly import prepare
from securefg.settings.config import load_config

EPSILONS = (math.inf, 32, 16, 8, 4, 2)
DIMENSIONS = (16, 64, 256)
DELTA = 1e-5
TELEPORT, STEPS = 0.1, 50
REGULARISATION = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
WEIGHTS = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)


def smoothed(graph: Graph, rows: Tensor, teleport: float = TELEPORT) -> Tensor:
    adjacency = normalized_adjacency(graph.edge_index, graph.num_nodes)
    return propagate_hidden(adjacency, rows.float(), teleport, STEPS)


def released(graph: Graph, dim: int, epsilon: float, seed: int) -> Tensor:
    """Every user's one upload, with its noise."""
    stream = torch.Generator().manual_seed(seed)
    projection = torch.randn(graph.num_features, dim, generator=stream) / math.sqrt(dim)
    rows = cut_rows(own_rows(graph) @ projection.double())
    if math.isinf(epsilon):
        return rows
    return Budget(epsilon, DELTA, (1.0,), seed).release(rows, 1.0)[0]


def share(answers: NDArray[np.float64], graph: Graph, part: Tensor) -> float:
    return float((answers.argmax(1) == graph.labels.numpy())[part.numpy()].mean())


def fitted(graph: Graph, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-probabilities of every node, by the regularisation that validation nodes favour."""
    train, labels = graph.split.train.numpy(), graph.labels.numpy()
    models = [LogisticRegression(C=c, max_iter=300) for c in REGULARISATION]
    answers = [m.fit(rows[train], labels[train]).predict_log_proba(rows) for m in models]
    return max(answers, key=lambda found: share(found, graph, graph.split.val))


def accuracies(graph: Graph, dim: int, epsilon: float, seed: int) -> tuple[float, float]:
    """On test nodes: of the uploads alone, and added to label propagation."""
    rows = smoothed(graph, released(graph, dim, epsilon, seed), 0.05).numpy()
    rows = rows / rows[graph.split.train.numpy()].std()
    own, spread = fitted(graph, rows), propagated(graph)
    both = [spread + weight * own for weight in WEIGHTS]
    best = max(both, key=lambda found: share(found, graph, graph.split.val))
    return share(own, graph, graph.split.test), share(best, graph, graph.split.test)


def propagated(graph: Graph) -> NDArray[np.float64]:
    """Label propagation: what the server has without any user."""
    known = torch.where(graph.split.train, graph.labels, -1)
    found = smoothed(graph, known_rows(known, graph.num_classes))
    logs: NDArray[np.float64] = found.clamp_min(LEAST).log().double().numpy()
    return logs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", default="configs/nfedgnn_cora.yaml")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    dealt = prepare(load_config(Path(given.config)))
    assert dealt.public.edge_index is not None  # the server's: users with one node hold no links
    graph = replace(dealt.union, edge_index=dealt.public.edge_index)
    print(
        f"label propagation, no user asked: {share(propagated(graph), graph, graph.split.test):.3f}"
    )
    print(
        "| epsilon | "
        + " | ".join(f"q = {dim}: uploads alone / added" for dim in DIMENSIONS)
        + " |"
    )
    for epsilon in EPSILONS:
        cells = []
        for dim in DIMENSIONS:
            found = [accuracies(graph, dim, epsilon, seed) for seed in range(given.seeds)]
            alone, added = np.mean(found, 0)
            cells.append(f"{alone:.3f} / {added:.3f}")
        print(f"| {epsilon:g} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
