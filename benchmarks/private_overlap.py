"""Several holders per node: what they cost one noisy sum, and what one speaker per node would gain.

    SECUREFG_DATA=... python benchmarks/private_overlap.py [--seeds 3] [--train-share .6]

FedGL's six clients on Cora hold 30 to 70 % of the papers each, with 140 labels or with a share of
the papers as training papers. Three ways to sum:
"all speak", as in `one_sum`: a paper moves the sum once for each of up to six holders. "Drawn
speaker": a public hash names one client per paper, which speaks if it holds the paper; nobody tells
anything. "One speaker": exactly one holder speaks, by a protocol that does not exist here. A
prototype without a channel: exact Gaussian noise at delta 3.6e-4, predictions at home, accuracy on
the clients' own test papers.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict

import torch
from private_few_labels import EPSILONS
from torch import Tensor

from audits.empirical_epsilon import mu_of_epsilon
from securefg.methods.at_home import predict_alone, predict_best
from securefg.methods.one_sum.algorithm import weigh_scores
from securefg.methods.two_sums.features import known_labels, own_rows
from securefg.models.discriminant import class_scores
from securefg.runs.assembly import Experiment, prepare
from securefg.settings.config import parse_config

DELTA = 3.6e-4
CONFIG = {
    "method": {"name": "one_sum"},
    "data": {"name": "cora"},
    "partition": {"name": "shares"},
    "training": {"rounds": 1, "patience": None, "final_model": "last"},
}


def voices(experiment: Experiment, seed: int) -> dict[str, tuple[Tensor, float]]:
    """Return for every way how often each node speaks, and how far one node moves the sum."""
    num_nodes, num_clients = experiment.public.num_nodes, experiment.public.num_clients
    held = torch.zeros(num_clients, num_nodes)
    for shard in experiment.shards:
        held[shard.client, shard.node_ids] = 1
    stream = torch.Generator().manual_seed(seed)
    named = torch.randint(num_clients, (num_nodes,), generator=stream)
    return {
        "all speak": (held.sum(0), float(held.sum(0).max())),
        "drawn speaker": (held[named, torch.arange(num_nodes)], 1.0),
        "one speaker": ((held.sum(0) > 0).float(), 1.0),
    }


def share_at_home(experiment: Experiment, scores: Tensor | None) -> float:
    """Return the accuracy on all clients' own test nodes, with or without common scores."""
    hits = []
    for shard in experiment.shards:
        graph = shard.graph
        if scores is None:
            logits = predict_alone(graph)
        else:
            logits = predict_best(graph, own_rows(graph) @ scores)
        test = graph.split.test
        hits.append(logits[test].argmax(1) == graph.labels[test])
    return float(torch.cat(hits).double().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--train-share", type=float, help="in place of 140 labels")
    given = parser.parse_args()
    torch.set_num_threads(1)
    shares_by_epsilon: dict[tuple[str, float], list[float]] = defaultdict(list)
    spoken: dict[str, list[float]] = defaultdict(list)
    for seed in range(400, 400 + given.seeds):
        config = {**CONFIG, "seed": seed}
        if given.train_share:
            split = {"kind": "shares", "train_share": given.train_share, "val_share": 0.2}
            config["data"] = {"name": "cora", "split": split}
        experiment = prepare(parse_config(config))
        graph, stream = experiment.union, torch.Generator().manual_seed(seed)
        shares_by_epsilon["alone", math.inf].append(share_at_home(experiment, None))
        for name, (counts, moved) in voices(experiment, seed).items():
            sums = own_rows(graph).T @ (known_labels(graph) * counts[:, None].double())
            spoken[name].append(float((counts * graph.split.train).sum()) / moved)
            for epsilon in (math.inf, *EPSILONS):
                noise = 0.0 if epsilon == math.inf else moved / mu_of_epsilon(epsilon, DELTA)
                drawn = torch.randn(sums.shape, generator=stream, dtype=torch.float64)
                noisy = sums + noise * drawn
                scores = weigh_scores(noisy, noise) * class_scores(noisy, noise, rates=True)
                shares_by_epsilon[name, epsilon].append(share_at_home(experiment, scores))
    print(
        "| way to sum | voices per sensitivity | no noise | epsilon 8 | 2 | 1 |\n"
        + "|---" * 6
        + "|"
    )
    for name, voiced in spoken.items():
        cells = [
            f"{sum(shares_by_epsilon[name, e]) / given.seeds:.3f}" for e in (math.inf, *EPSILONS)
        ]
        print(f"| {name} | {sum(voiced) / given.seeds:.0f} | {' | '.join(cells)} |")
    print(f"regression alone: {sum(shares_by_epsilon['alone', math.inf]) / given.seeds:.3f}")


if __name__ == "__main__":
    main()
