"""What a private run would cost, from public sizes alone: nothing private is read.

A release of `dim` numbers carries noise of one standard deviation on each. A pattern of length n
that n training nodes share, spread over all numbers, has n / sqrt(dim) on each. From a ratio of 3
on models kept 85 % of their accuracy without noise or more, below 2 some kept half: on validation
nodes of graphs that no table reports (benchmarks/private_trials.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from securefg.federation.roles import PublicInfo
from securefg.foundation.errors import ConfigError
from securefg.methods.base import asked_at_once, population_of
from securefg.methods.registry import get_method
from securefg.models.discriminant import CLEAR
from securefg.privacy.policy import make_policy
from securefg.privacy.rules import Plain, TrainedWithNoise
from securefg.settings.config import RunConfig
from securefg.settings.datasets import DATASETS
from securefg.settings.methods.two_sums import FeatureSettings

WORTH = 3.0
SHARES = (8.0, 3.0)
"""Links over d0: the first where that leaves the last sum clear of its noise, else the second."""


@dataclass(frozen=True)
class PlannedNoise:
    """One release: its numbers, the noise on each of the sum, and signal over noise.

    ratio  (n / sqrt(dim)) / noise: by how much a pattern that n nodes share evenly over `dim`
           numbers passes the noise; None where there is none
    """

    name: str
    dim: int
    noise: float
    ratio: float | None


@dataclass(frozen=True)
class Plan:
    """The releases of a run, for `num_training` of `num_nodes` nodes."""

    num_nodes: int
    num_training: int
    num_clients: int
    releases: tuple[PlannedNoise, ...]

    @property
    def worth_it(self) -> bool:
        """Whether every release stands clear of its noise."""
        return all(r.ratio is None or r.ratio >= WORTH for r in self.releases)


def plan(config: RunConfig) -> Plan:
    """From the catalogue's sizes and the config; a folder's, or a drawn graph's, are not known."""
    sizes, method = DATASETS[config.data.name], get_method(config.method.name)
    csbm = config.data.csbm
    nodes = sizes.num_nodes if csbm is None else csbm.num_nodes
    columns = sizes.num_features if csbm is None else csbm.num_features
    if nodes is None or columns is None or sizes.num_classes is None:
        raise ConfigError(
            f"data.name: {config.data.name!r} has no published sizes to plan with; allowed: "
            f"{', '.join(name for name, info in DATASETS.items() if info.num_nodes)}, csbm"
        )
    clients = getattr(config.partition, "num_clients", None)
    if clients is None:
        clients = 7 if config.data.name == "twitch" else nodes
    info = PublicInfo(
        num_nodes=nodes,
        num_features=config.data.projection or columns,
        num_classes=sizes.num_classes,
        num_clients=clients,
        seed=0,
        device=torch.device("cpu"),
        node_holders=1,
        edge_holders=1,
    )
    planned = method.releases(config.method, config.training, info)
    policy = make_policy(
        config.privacy,
        planned,
        asked_at_once(clients, config.training.participation),
        clients,
        population_of(method, info),
    )
    training = round(_training_share(config) * nodes)
    found = []
    for release in planned:
        rule = policy.rules[release.name]
        if isinstance(rule, Plain | TrainedWithNoise):
            found.append(PlannedNoise(release.name, release.dim, 0.0, None))
            continue
        noise = rule.single_stddev(torch.Size([release.dim])) * math.sqrt(clients)
        ratio = training / math.sqrt(release.dim) / noise
        found.append(PlannedNoise(release.name, release.dim, noise, ratio))
    return Plan(nodes, training, clients, tuple(found))


def divisor_by_rule(config: RunConfig) -> float | None:
    """d0 for these public sizes and this epsilon; None where no links are summed under noise."""
    method = config.method
    if not isinstance(method, FeatureSettings) or not method.graph:
        return None
    tried = [max(1.0, method.links / share) for share in SHARES]
    for scale in tried:
        changed = method.model_copy(update={"scale": scale})
        found = plan(config.model_copy(update={"method": changed})).releases
        if not found or found[-1].ratio is None:
            return None
        if found[-1].ratio >= CLEAR:
            return scale
    return tried[-1]


def _training_share(config: RunConfig) -> float:
    split = config.data.split
    if config.data.csbm is not None:
        return config.data.csbm.train_share
    if split.kind != "shares":
        raise ConfigError(
            f"data.split.kind: {split.kind!r} does not say which share trains; allowed for a plan: "
            "shares"
        )
    return split.train_share
