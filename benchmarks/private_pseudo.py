"""Sums by pseudo label: encodings, rounds and weights, with and without spectral coordinates.

    SECUREFG_DATA=... python benchmarks/private_pseudo.py [--data cora] [--seeds 3]

The method's own users and server on random splits with 20 labels per class, with exact Gaussian
noise in place of the masked channel. A line shows the variant that is best on validation nodes at
its epsilon. "Alone" is the server that asks nobody: its pseudo labels by themselves.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from audits.empirical_epsilon import mu_of_epsilon
from securefg.federation.roles import Cohort, Replies, Site
from securefg.methods.pseudo_sums.algorithm import (
    LEAST,
    ClassSums,
    SumServer,
    Users,
    pseudo_labels,
)
from securefg.methods.pseudo_sums.settings import Settings
from securefg.methods.two_sums.features import own_rows
from securefg.protocol.codec import Clients, Turn
from securefg.runs.assembly import Experiment, prepare
from securefg.settings.config import parse_config

DELTAS = {"cora": 3.6e-4, "citeseer": 3e-4, "pubmed": 5e-5}
EPSILONS = (2.0, 1.0)
WEIGHTS = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
FIRST_SEED = 500
Case = tuple[int, float]
Reached = tuple[float, float]
"""Accuracy on validation and on test nodes."""


class Variant(NamedTuple):
    """What users send, and how often. In the first of two rounds predictions have weight 3."""

    encoding: str
    later: str
    rounds: int

    def __str__(self) -> str:
        kind = "residuals" if self.later == "residuals" else self.encoding
        return f"{kind}, {self.rounds} round{'s' * (self.rounds > 1)}"


VARIANTS = (
    Variant("rates", "predictions", 1),
    Variant("rates", "predictions", 2),
    Variant("sums", "predictions", 1),
    Variant("sums", "predictions", 2),
    Variant("rates", "residuals", 2),
    Variant("rates", "residuals", 5),
)


class NoisyUsers(Cohort):
    """All users, who answer with one noisy sum."""

    def __init__(self, users: Users, count: int, noise: float, seed: int) -> None:
        self.num_clients, self._users, self._noise = count, users, noise
        self._stream = torch.Generator().manual_seed(seed)

    def ask(self, request: Any, reply: Any, clients: Clients | None = None) -> Replies[Any]:
        """Return the sum of all answers, with noise."""
        everybody = Clients.of(range(self.num_clients))
        answer = self._users.handle(request, Turn(request.number, 1, everybody))
        assert isinstance(answer, ClassSums)
        total = answer.sums.double().sum(0)
        noise = torch.randn(total.shape, generator=self._stream, dtype=total.dtype)
        return Replies(answer, everybody, (), sums={"sums": total + self._noise * noise})

    def noise_stddev(self, replies: Replies[Any], field: str) -> float:
        """Return the standard deviation of the noise on every number."""
        return self._noise


def score_logits(experiment: Experiment, logits: Tensor) -> Reached:
    """Return the accuracy of all nodes' logits."""
    graph = experiment.union
    hits = (logits.argmax(1) == graph.labels).double()
    return float(hits[graph.split.val].mean()), float(hits[graph.split.test].mean())


def try_variant(
    experiment: Experiment, variant: Variant, coordinates: int, noise: float
) -> Iterator[tuple[float, Reached]]:
    """Yield what the variant reaches at every weight."""
    info, config = experiment.public, experiment.config
    settings = Settings.model_validate(
        {"coordinates": coordinates, "encoding": variant.encoding, "later_rounds": variant.later}
    )
    users = Users(Site(experiment.shards, settings, config.training, config.seed, info.device))
    noise *= variant.rounds**0.5  # the rounds share the budget
    cohort = NoisyUsers(users, info.num_nodes, noise, config.seed)
    server = SumServer(info, settings, config.training, cohort)
    for number in range(variant.rounds):
        release = server.round(number + 1)
    shares = pseudo_labels(info, settings).clamp_min(LEAST).log()
    scores = own_rows(experiment.union) @ release.projection.double()  # type: ignore[attr-defined]
    for weight in WEIGHTS:
        yield weight, score_logits(experiment, shares + weight * scores)


def mean_of(reached: list[Reached]) -> Reached:
    """Return both means."""
    values, tests = zip(*reached, strict=True)
    return sum(values) / len(values), sum(tests) / len(tests)


def tell_data(name: str, seeds: int) -> None:
    """Print a line for each number of coordinates and each epsilon."""
    alone: dict[int, list[Reached]] = defaultdict(list)
    tried: dict[Case, dict[str, list[Reached]]] = defaultdict(lambda: defaultdict(list))
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        experiment = prepare(
            parse_config(
                {
                    "method": {"name": "pseudo_sums"},
                    "data": {"name": name, "split": {"kind": "random"}},
                    "partition": {"name": "one_node"},
                    "training": {"rounds": 1, "patience": None, "final_model": "last"},
                    "seed": seed,
                }
            )
        )
        for coordinates in (0, 32):
            settings = Settings(coordinates=coordinates)
            shares = pseudo_labels(experiment.public, settings)
            alone[coordinates].append(score_logits(experiment, shares))
            for epsilon in EPSILONS:
                noise = 1 / mu_of_epsilon(epsilon, DELTAS[name])
                for variant in VARIANTS:
                    for weight, reached in try_variant(experiment, variant, coordinates, noise):
                        label = f"{variant}, weight {weight:g}"
                        tried[coordinates, epsilon][label].append(reached)
    for (coordinates, epsilon), by_label in tried.items():
        means = {label: mean_of(reached) for label, reached in by_label.items()}
        best = max(means, key=lambda label: means[label])
        value, test = means[best]
        server = mean_of(alone[coordinates])[1]
        cells = (name, coordinates, f"{server:.3f}", f"{epsilon:g}", best, f"{value:.3f}")
        print(f"| {' | '.join(map(str, cells))} | {test:.3f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", nargs="+", choices=DELTAS, default=list(DELTAS))
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print("| data | coordinates | alone | epsilon | best on validation nodes | there | on test |")
    print("|" + "---|" * 7)
    for name in given.data:
        tell_data(name, given.seeds)


if __name__ == "__main__":
    main()
