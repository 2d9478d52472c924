"""The cost of a private run, from public sizes alone: nothing private is read.

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
from securefg.privacy.defence import NoisyUpload
from securefg.privacy.policy import make_policy
from securefg.settings.config import RunConfig
from securefg.settings.datasets import dataset_info

WORTH = 3.0


@dataclass(frozen=True)
class PlannedNoise:
    """A release: its numbers, the noise on each of the sum, and signal over noise.

    ratio  (n / sqrt(dim)) / noise: by how much a pattern that n nodes share evenly over `dim`
           numbers passes the noise, or None where there is none
    trained  whether the noise is in the training
    """

    name: str
    dim: int
    noise: float
    ratio: float | None
    trained: bool = False


@dataclass(frozen=True)
class Plan:
    """A plan of a run's releases, for `num_training` of `num_nodes` nodes."""

    num_nodes: int
    num_training: int
    num_clients: int
    releases: tuple[PlannedNoise, ...]

    @property
    def training_per_client(self) -> int:
        """Return the mean number of training nodes that one client holds alone."""
        return round(self.num_training / self.num_clients)

    @property
    def has_noise(self) -> bool:
        """Return whether any upload gets noise, so that there is anything to weigh."""
        return any(r.ratio is not None for r in self.releases)

    @property
    def worth_it(self) -> bool:
        """Return whether there is noise and every release stands clear of it: a model is left.
        Sizes do not tell whether it is better than what clients could train alone."""
        return self.has_noise and all(r.ratio is None or r.ratio >= WORTH for r in self.releases)


def published_sizes(config: RunConfig, clients: int | None = None) -> PublicInfo:
    """Return the catalogue's sizes. The sizes of a folder or a drawn graph are not known before it
    is read.

    clients  their number, where only the data tell it
    """
    sizes, csbm = dataset_info(config.data.name), config.data.csbm
    nodes = sizes.num_nodes if csbm is None else csbm.num_nodes
    columns = sizes.num_features if csbm is None else csbm.num_features
    if nodes is None or columns is None or sizes.num_classes is None:
        raise ConfigError(
            f"data.name: {config.data.name!r} has no published sizes to plan with; give them: "
            "--nodes --features --classes --train --clients"
        )
    if config.centralised:
        clients = 1
    elif clients is None:
        clients = _num_clients(config, nodes)
    holders = 1 if config.centralised or _is_disjoint(config) else None
    return PublicInfo(
        num_nodes=nodes,
        num_features=config.data.projection or columns,
        num_classes=sizes.num_classes,
        num_clients=clients,
        seed=0,
        device=torch.device("cpu"),
        node_holders=holders,
        edge_holders=holders,
    )


def plan(config: RunConfig, info: PublicInfo, training: int | None = None) -> Plan:
    """Return the noise on every release of this config, for data of these sizes.

    training  how many nodes train, where the config does not say
    """
    method, clients = get_method(config.method.name), info.num_clients
    planned = method.releases(config.method, config.training, info)
    policy = make_policy(
        config.privacy,
        planned,
        asked_at_once(clients, config.training.participation),
        clients,
        population_of(method, info),
    )
    training = num_training(config, info) if training is None else training
    planned_noises = []
    for release in planned:
        rule = policy.rules[release.name]
        if not isinstance(rule, NoisyUpload):
            trained = rule.noise_in == "training"
            planned_noises.append(PlannedNoise(release.name, release.dim, 0.0, None, trained))
            continue
        noise = rule.stddev(torch.Size([release.dim])) * math.sqrt(clients)
        contributors = info.num_nodes if release.unlabelled else training
        ratio = contributors / math.sqrt(release.dim) / noise
        planned_noises.append(PlannedNoise(release.name, release.dim, noise, ratio))
    return Plan(info.num_nodes, training, clients, tuple(planned_noises))


def num_training(config: RunConfig, info: PublicInfo) -> int:
    """Return how many nodes train, as the config tells. Raise ConfigError if only the data could
    tell."""
    split, csbm = config.data.split, config.data.csbm
    if csbm is not None:
        return round(csbm.train_share * info.num_nodes)
    if split.kind == "shares":
        return round(split.train_share * info.num_nodes)
    if split.kind == "random":
        return min(info.num_nodes, split.labels_per_class * info.num_classes)
    if split.kind == "folds":
        return round(0.9 * (1 - 1 / split.num_folds) * info.num_nodes)
    published = dataset_info(config.data.name).public_training
    if split.kind == "public" and published is not None:
        return published
    raise ConfigError(
        f"data.split.kind: {split.kind!r} does not say how many nodes train; allowed for a plan: "
        "shares, random, folds, or --train"
    )


def _is_disjoint(config: RunConfig) -> bool:
    return config.partition.disjoint or _deals_countries(config)


def _deals_countries(config: RunConfig) -> bool:
    return config.partition.name == "given" and config.data.name == "twitch"


def _num_clients(config: RunConfig, nodes: int) -> int:
    counted = 7 if _deals_countries(config) else config.partition.count_clients(nodes)
    if counted is None:
        raise ConfigError(
            f"partition.name: found {config.partition.name!r}, whose number of clients only the "
            "data tell; expected a partition with num_clients for a plan, or --clients"
        )
    return counted
