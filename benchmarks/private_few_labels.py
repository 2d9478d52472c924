"""Few labels: what spreading labels over a silo's own links adds to the common model, at home.

    SECUREFG_DATA=... python benchmarks/private_few_labels.py [--graphs NAME ...]

Validation nodes of the graphs of private_trials.py, with 3 % and 10 % of the nodes in training, and
exact Gaussian noise; means of 3 draws. Spreading reads the release and the silo's own links and
labels, and nothing of it leaves: it costs no budget.

    F := (1 - .8) F0 + .8 mean of F over neighbours, 15 times; training nodes keep their label

with F0 the common model's class probabilities, or 1/C for "own labels alone".
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
import torch
from private_trials import GRAPHS, Trial, accuracy, by_rule
from torch import Tensor

from securefg.data.graph import Graph, undirected
from securefg.methods.two_sums.algorithm import FIRST_SHARE
from securefg.methods.two_sums.features import known_labels

KEPT, STEPS, DRAWS = 0.8, 15, 3


def with_fewer(graph: Graph, share: float) -> Graph:
    rng, trains = np.random.default_rng(0), graph.split.train.numpy()
    kept = rng.choice(np.flatnonzero(trains), int(share * graph.num_nodes), replace=False)
    train = torch.zeros(graph.num_nodes, dtype=torch.bool)
    train[torch.from_numpy(kept)] = True
    return replace(graph, split=replace(graph.split, train=train))


def spread(graph: Graph, start: Tensor) -> Tensor:
    source, target = undirected(graph.edge_index, graph.num_nodes)
    degree = torch.bincount(target, minlength=graph.num_nodes).clamp_min(1)[:, None]
    labels, train = known_labels(graph), graph.split.train
    first = torch.where(train[:, None], labels, start)
    found = first
    for _ in range(STEPS):
        met = torch.zeros_like(found).index_add_(0, target, found[source]) / degree
        found = torch.where(train[:, None], labels, (1 - KEPT) * first + KEPT * met)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), choices=list(GRAPHS))
    torch.set_num_threads(1)
    print("| graph, share, epsilon | common | spread at home | own labels alone, spread |")
    print("|---" * 4 + "|")
    for name in parser.parse_args().graphs:
        make, links = GRAPHS[name]
        whole = make(100)
        for share in (0.03, 0.1):
            graph = with_fewer(whole, share)
            nothing = torch.full((graph.num_nodes, graph.num_classes), 1 / graph.num_classes)
            alone = accuracy(graph, spread(graph, nothing.double()))
            for epsilon in (8.0, 1.0):
                found = []
                for draw in range(DRAWS):
                    logits = by_rule(Trial(graph, links, epsilon, draw), FIRST_SHARE)
                    at_home = spread(graph, logits.softmax(1))
                    found.append((accuracy(graph, logits), accuracy(graph, at_home)))
                common, home = np.mean(found, 0)
                cells = f"{common:.3f} | {home:.3f} | {alone:.3f}"
                print(f"| {name}, {share:.0%}, {epsilon:g} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
