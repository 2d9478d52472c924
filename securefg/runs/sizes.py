"""The sizes that a plan needs: given by hand, of a catalogue, or of one's own prepared folder.

A folder's sizes are read from its files. No value of them is used for anything but counting.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from securefg.data.datasets import load
from securefg.data.partition import most_holders
from securefg.data.partitions import draw_partition, leave_out_users
from securefg.federation.roles import PublicInfo
from securefg.foundation.errors import ConfigError
from securefg.methods.base import asked_at_once, population_of
from securefg.methods.registry import get_method
from securefg.privacy.policy import make_policy
from securefg.runs.assembly import Setup
from securefg.runs.choosing import settle_config
from securefg.runs.planning import num_training, published_sizes
from securefg.settings.config import RunConfig


@dataclass(frozen=True)
class Sizes:
    """A set of sizes given by hand. None is a size that the config or the data tell.

    train    nodes that train
    holders  the largest number of clients that hold one node
    links    the largest number of links that epsilon per node covers: the method's own setting
    """

    nodes: int | None = None
    features: int | None = None
    classes: int | None = None
    train: int | None = None
    clients: int | None = None
    holders: int | None = None
    links: int | None = None

    @property
    def whole(self) -> tuple[int, ...]:
        """Return nodes, features, classes and clients, or empty unless all of them are given."""
        sizes = (self.nodes, self.features, self.classes, self.clients)
        known = tuple(size for size in sizes if size is not None)
        return known if len(known) == len(sizes) else ()


@dataclass(frozen=True)
class Sized:
    """A config with the public sizes of its data, and how many nodes train."""

    config: RunConfig
    info: PublicInfo
    training: int | None


def with_sizes(config: RunConfig, given: Sizes) -> Sized:
    """Return the settled config with its sizes: by hand first, then as the data tell them."""
    config = _with_links(config, given.links)
    _refuse_odd(given)
    known_sizes = _by_hand(config, given) if given.whole else _known_sizes(config, given.clients)
    info = replace(
        known_sizes.info,
        num_nodes=given.nodes or known_sizes.info.num_nodes,
        num_features=given.features or known_sizes.info.num_features,
        num_classes=given.classes or known_sizes.info.num_classes,
        num_clients=given.clients or known_sizes.info.num_clients,
        node_holders=given.holders or known_sizes.info.node_holders,
        edge_holders=given.holders or known_sizes.info.edge_holders,
    )
    training = given.train or known_sizes.training
    return Sized(settle_config(config, info), info, training)


def setup_of(sized: Sized) -> Setup:
    """Return the rules of the run without any data: enough to say what its epsilons will be."""
    config, info = sized.config, sized.info
    method = get_method(config.method.name)
    releases = method.releases(config.method, config.training, info)
    cohort = asked_at_once(info.num_clients, config.training.participation)
    population = population_of(method, info)
    policy = make_policy(config.privacy, releases, cohort, info.num_clients, population)
    return Setup(config=config, method=method, public=info, policy=policy)


def _refuse_odd(given: Sizes) -> None:
    limits = (("train", given.train, given.nodes), ("holders", given.holders, given.clients))
    for name, value, most in limits:
        if value is not None and most is not None and value > most:
            raise ConfigError(f"--{name}: found {value}; expected at most {most}")


def _with_links(config: RunConfig, links: int | None) -> RunConfig:
    if links is None:
        return config
    if "links" not in type(config.method).model_fields:
        raise ConfigError(
            f"--links: found {links} with method.name {config.method.name}; expected a method "
            "whose epsilon per node covers a number of links"
        )
    return config.model_copy(update={"method": config.method.model_copy(update={"links": links})})


def _by_hand(config: RunConfig, given: Sizes) -> Sized:
    nodes, features, classes, clients = given.whole
    holders = 1 if config.centralised or config.partition.disjoint else None
    info = PublicInfo(
        num_nodes=nodes,
        num_features=config.data.projection or features,
        num_classes=classes,
        num_clients=clients,
        seed=0,
        device=torch.device("cpu"),
        node_holders=holders,
        edge_holders=holders,
    )
    return Sized(config, info, _training_size(config, info))


def _known_sizes(config: RunConfig, clients: int | None) -> Sized:
    """Return the sizes of the catalogue, or of a folder."""
    if config.data.folder is None:
        info = published_sizes(config, clients)
        return Sized(config, info, _training_size(config, info))
    graph, scheme = leave_out_users(load(config.data, config.seed), config.partition)
    partition = draw_partition(graph, scheme, config.seed)
    node_holders, edge_holders = most_holders(graph, partition)
    info = PublicInfo(
        num_nodes=graph.num_nodes,
        num_features=graph.num_features,
        num_classes=graph.num_classes,
        num_clients=1 if config.centralised else partition.num_clients,
        seed=0,
        device=torch.device("cpu"),
        node_holders=1 if config.centralised else node_holders,
        edge_holders=1 if config.centralised else edge_holders,
    )
    return Sized(config, info, graph.split.sizes[0])


def _training_size(config: RunConfig, info: PublicInfo) -> int | None:
    try:
        return num_training(config, info)
    except ConfigError:
        return None
