"""One sum or two, and what silos reach alone: on graphs that no table reports.

    SECUREFG_DATA=... python benchmarks/private_few_labels.py [--only TEXT] [--seeds 3]

Class years at Johns Hopkins and Amherst, over random silos and over majors. Exact Gaussian noise at
delta 1/n, no channel. All private columns are predictions at home, by the code of the methods.
Accuracy on test nodes: the constants of `one_sum` and `at_home` were chosen by this table and its
forerunners, and by nothing of the graphs that the docs report.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from typing import Any

import numpy as np
import torch
from private_trials import Trial, by_rule
from torch import Tensor

from securefg.data.graph import Graph
from securefg.methods.at_home import predict_alone, predict_best
from securefg.methods.one_sum.algorithm import weigh_scores
from securefg.methods.two_sums.algorithm import FIRST_SHARE
from securefg.methods.two_sums.features import class_sums, own_rows
from securefg.models.discriminant import class_scores
from securefg.runs.assembly import Experiment, prepare
from securefg.settings.config import parse_config

EPSILONS = (8.0, 2.0, 1.0)
Case = tuple[str, dict[str, Any], float, int]
"""University, partition, share of training nodes, links covered by two sums."""


def of_random(name: str, count: int, share: float, links: int) -> Case:
    return name, {"name": "random", "num_clients": count}, share, links


def of_majors(name: str, first: int, count: int, share: float, links: int) -> Case:
    return name, {"name": "feature_group", "first": first, "count": count}, share, links


def of_communities(name: str, count: int, share: float, links: int) -> Case:
    return name, {"name": "louvain", "num_clients": count}, share, links


CASES = {
    "Johns Hopkins, 30 random, 10 %": of_random("johnshopkins55", 30, 0.1, 3),
    "Amherst, 13 random, 10 %": of_random("amherst41", 13, 0.1, 3),
    "Johns Hopkins, majors, 10 %": of_majors("johnshopkins55", 8, 89, 0.1, 25),
    "Johns Hopkins, 30 random, 75 %": of_random("johnshopkins55", 30, 0.75, 6),
    "Johns Hopkins, majors, 75 %": of_majors("johnshopkins55", 8, 89, 0.75, 25),
    "Amherst, majors, 75 %": of_majors("amherst41", 7, 29, 0.75, 16),
    "Johns Hopkins, 4 communities, 75 %": of_communities("johnshopkins55", 4, 0.75, 60),
    "Johns Hopkins, 10 communities, 75 %": of_communities("johnshopkins55", 10, 0.75, 60),
    "Amherst, 4 communities, 75 %": of_communities("amherst41", 4, 0.75, 60),
    "Amherst, 10 communities, 75 %": of_communities("amherst41", 10, 0.75, 60),
}


def dealt(case: Case, seed: int) -> Experiment:
    name, partition, share, links = case
    config = {
        "method": {"name": "two_sums", "links": links},
        "data": {"name": name, "split": {"kind": "shares", "train_share": share, "val_share": 0.1}},
        "partition": partition,
        "training": {"rounds": 1, "patience": None, "final_model": "last"},
        "seed": seed,
    }
    return prepare(parse_config(config))


def one_sum(graph: Graph, links: int, epsilon: float, seed: int) -> tuple[Tensor, float]:
    """Class scores of all nodes from one sum, and its signal over noise by public sizes."""
    sums, noise = Trial(graph, links, epsilon, seed).noisy(class_sums(graph), 1.0, 1.0)
    scores = weigh_scores(sums, noise) * class_scores(sums, noise, rates=True)
    ratio = int(graph.split.train.sum()) / math.sqrt(sums.numel()) / noise
    return own_rows(graph) @ scores, ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases with this text in their name")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print("| case | alone | epsilon | ratio of one sum | one sum | two sums |\n" + "|---" * 6 + "|")
    for name, case in CASES.items():
        if given.only.lower() in name.lower():
            print_case(name, case, given.seeds)


def print_case(name: str, case: Case, seeds: int) -> None:
    hits: dict[tuple[str, float], list[Tensor]] = defaultdict(list)
    ratios: dict[float, list[float]] = defaultdict(list)

    def count(column: str, epsilon: float, graph: Graph, logits: Tensor) -> None:
        test = graph.split.test
        hits[column, epsilon].append(logits[test].argmax(1) == graph.labels[test])

    for seed in range(500, 500 + seeds):
        experiment = dealt(case, seed)
        for shard in experiment.shards:
            count("alone", 0, shard.graph, predict_alone(shard.graph))
        for epsilon in EPSILONS:
            first, ratio = one_sum(experiment.union, case[3], epsilon, seed)
            second = by_rule(Trial(experiment.union, case[3], epsilon, seed), FIRST_SHARE)
            ratios[epsilon].append(ratio)
            for shard in experiment.shards:
                graph, own = shard.graph, shard.node_ids
                count("one", epsilon, graph, predict_best(graph, first[own]))
                count("two", epsilon, graph, predict_best(graph, second[own]))
    reached = {key: float(torch.cat(found).double().mean()) for key, found in hits.items()}
    for epsilon in EPSILONS:
        cells = f"{epsilon:g} | {np.mean(ratios[epsilon]):.1f} | {reached['one', epsilon]:.3f}"
        alone = reached["alone", 0]
        print(f"| {name} | {alone:.3f} | {cells} | {reached['two', epsilon]:.3f} |", flush=True)


if __name__ == "__main__":
    main()
