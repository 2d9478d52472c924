"""Two variants of sums by pseudo label that are not in the package: prototypes.

    SECUREFG_DATA=... python benchmarks/private_user_variants.py labels [--seeds 3]
    SECUREFG_DATA=... python benchmarks/private_user_variants.py scores [--seeds 3]

"labels": users hold the labels (GFL-APPNP's setting, Cora). Each labelled user sends its label once
by randomised response. The server, which has the graph, corrects the bias, propagates, and asks for
the sum by these shares. Both parts add up to epsilon for features and label. The label gets .7.
"scores": the server predicts. A fifth of the budget (of mu^2) is for the sum, the rest for C noisy
class scores that each user uploads. The server smooths them over the graph and adds them to its own
shares, with the weight that is best on validation nodes. Exact Gaussian noise, no channel, the
method's own users and server, random splits, test accuracy.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import torch
from private_pseudo import DELTAS, FIRST_SEED, NoisyUsers, Reached, mean_of, score_logits
from torch import Tensor
from torch.nn.functional import one_hot

from audits.empirical_epsilon import mu_of_epsilon
from securefg.federation.roles import Site
from securefg.methods.pseudo_sums.algorithm import (
    LEAST,
    Model,
    SumServer,
    Users,
    pseudo_labels,
    unit_rows,
)
from securefg.methods.pseudo_sums.settings import Settings
from securefg.methods.two_sums.features import own_rows
from securefg.models.appnp import propagate_hidden
from securefg.models.gcn import normalized_adjacency
from securefg.runs.assembly import Experiment, prepare
from securefg.settings.config import parse_config

EPSILONS = (8.0, 4.0, 2.0, 1.0)
LABEL_SHARE = 0.7
SUM_SHARE = 0.2
SCORE_WEIGHTS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
SPLITS: dict[str, dict[str, Any]] = {
    "60 % of the users": {"kind": "shares", "train_share": 0.6, "val_share": 0.2},
    "140 users": {"kind": "random"},
}


def respond_randomly(
    labels: Tensor, classes: int, epsilon: float, stream: torch.Generator
) -> Tensor:
    """Return unbiased rows of labels that keep their class with e^epsilon times the odds of any
    other class."""
    kept = math.exp(epsilon) / (math.exp(epsilon) + classes - 1)
    other = (1 - kept) / (classes - 1)
    shift = torch.randint(1, classes, labels.shape, generator=stream)
    is_kept = torch.rand(labels.shape, generator=stream) < kept
    sent = torch.where(is_kept, labels, (labels + shift) % classes)
    return (one_hot(sent, classes).double() - other) / (kept - other)


def shares_by_response(experiment: Experiment, epsilon: float, stream: torch.Generator) -> Tensor:
    """Return pseudo labels from randomised responses."""
    info, graph, settings = experiment.public, experiment.union, Settings()
    assert info.edge_index is not None
    train = graph.split.train
    rows = torch.zeros(info.num_nodes, info.num_classes, dtype=torch.float64)
    rows[train] = respond_randomly(graph.labels[train], info.num_classes, epsilon, stream)
    adjacency = normalized_adjacency(info.edge_index, info.num_nodes)
    spread = propagate_hidden(adjacency, rows.float(), settings.teleport, settings.steps)
    sharp = spread.double().clamp_min(LEAST) ** settings.sharpness
    return sharp / sharp.sum(1, keepdim=True)


def reach_accuracy(experiment: Experiment, epsilon: float, seed: int) -> float:
    """Return test accuracy at an epsilon for features and label."""
    info, config, settings = experiment.public, experiment.config, Settings()
    stream = torch.Generator().manual_seed(seed)
    shares = shares_by_response(experiment, LABEL_SHARE * epsilon, stream)
    noise = 1 / mu_of_epsilon((1 - LABEL_SHARE) * epsilon, DELTAS["cora"])
    users = Users(Site(experiment.shards, settings, config.training, seed, info.device))
    cohort = NoisyUsers(users, info.num_nodes, noise, seed)
    server = SumServer(info, settings, config.training, cohort)
    server._pseudo = shares.float()
    release = server.round(1)
    assert isinstance(release, Model)
    scores = own_rows(experiment.union) @ release.projection.double()
    return score_logits(experiment, shares.log() + settings.feature_weight * scores)[1]


def prepare_users(data: str, split: dict[str, Any], seed: int) -> Experiment:
    """Return the graph with one node per user."""
    return prepare(
        parse_config(
            {
                "method": {"name": "pseudo_sums"},
                "data": {"name": data, "split": split},
                "partition": {"name": "one_node"},
                "training": {"rounds": 1, "patience": None, "final_model": "last"},
                "seed": seed,
            }
        )
    )


def tell_labels(seeds: int) -> None:
    """Print test accuracy where users hold the labels."""
    print("| labels | epsilon 8 | 4 | 2 | 1 |\n" + "|---" * 5 + "|")
    for name, split in SPLITS.items():
        totals = dict.fromkeys(EPSILONS, 0.0)
        for seed in range(FIRST_SEED, FIRST_SEED + seeds):
            experiment = prepare_users("cora", split, seed)
            for epsilon in EPSILONS:
                totals[epsilon] += reach_accuracy(experiment, epsilon, seed) / seeds
        print(f"| {name} | {' | '.join(f'{total:.3f}' for total in totals.values())} |")


def reach_on_server(experiment: Experiment, data: str, epsilon: float, seed: int) -> list[Reached]:
    """Return what the server reaches by every weight of the noisy scores. Weight 0 asks nobody."""
    info, config = experiment.public, experiment.config
    settings = Settings(coordinates=32, encoding="sums" if data == "citeseer" else "rates")
    stream, mu = torch.Generator().manual_seed(seed), mu_of_epsilon(epsilon, DELTAS[data])
    users = Users(Site(experiment.shards, settings, config.training, seed, info.device))
    cohort = NoisyUsers(users, info.num_nodes, 1 / (mu * SUM_SHARE**0.5), seed)
    release = SumServer(info, settings, config.training, cohort).round(1)
    assert isinstance(release, Model)
    scores = unit_rows(own_rows(experiment.union) @ release.projection.double())
    noise = torch.randn(scores.shape, generator=stream, dtype=scores.dtype)
    noisy = scores + noise / (mu * (1 - SUM_SHARE) ** 0.5)
    assert info.edge_index is not None
    adjacency = normalized_adjacency(info.edge_index, info.num_nodes)
    smooth = propagate_hidden(adjacency, noisy.float(), settings.teleport, settings.steps).double()
    shares = pseudo_labels(info, settings).clamp_min(LEAST).log()
    return [score_logits(experiment, shares + weight * smooth) for weight in SCORE_WEIGHTS]


def tell_scores(seeds: int) -> None:
    """Print test accuracy where the server predicts, beside the server that asks nobody."""
    print("| data | epsilon | asks nobody | best weight on validation nodes | reached |")
    print("|---" * 5 + "|")
    for data in DELTAS:
        for epsilon in EPSILONS[2:]:
            drawn = [
                reach_on_server(prepare_users(data, {"kind": "random"}, seed), data, epsilon, seed)
                for seed in range(FIRST_SEED, FIRST_SEED + seeds)
            ]
            means = [mean_of(list(reached)) for reached in zip(*drawn, strict=True)]
            best = max(range(len(means)), key=lambda place: means[place])
            cells = (data, f"{epsilon:g}", f"{means[0][1]:.3f}", f"{SCORE_WEIGHTS[best]:g}")
            print(f"| {' | '.join(cells)} | {means[best][1]:.3f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("variant", choices=("labels", "scores"))
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    {"labels": tell_labels, "scores": tell_scores}[given.variant](given.seeds)


if __name__ == "__main__":
    main()
