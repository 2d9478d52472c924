"""Disjoint clients with skewed labels: the nodes of every class are dealt by a Dirichlet draw.

Hsu et al., "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification", 2019: for every class c, p_c ~ Dir(alpha 1_K), and client k gets a share p_ck of
its nodes. A small alpha means few classes at a client.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from securefg.data.graph import Graph
from securefg.data.partition import Partition
from securefg.data.partitions.limits import check_num_clients
from securefg.foundation.errors import ConfigError
from securefg.settings.partition import DirichletSettings

MAX_TRIES = 1000


def draw(graph: Graph, settings: DirichletSettings, stream: np.random.Generator) -> Partition:
    check_num_clients(settings.num_clients, graph, settings.min_nodes)
    if graph.labels.dim() != 1:
        raise ConfigError("partition.name: 'dirichlet' needs one label per node, not per sample")
    for _ in range(MAX_TRIES):
        owner = _owners(graph.labels.numpy(), settings, stream)
        if np.bincount(owner, minlength=settings.num_clients).min() >= settings.min_nodes:
            clients = [torch.from_numpy(np.flatnonzero(owner == k)) for k in range(owner.max() + 1)]
            return Partition.of("dirichlet", graph.num_nodes, clients)
    raise ConfigError(
        f"partition.min_nodes: none of {MAX_TRIES} draws gave {settings.num_clients} clients "
        f"{settings.min_nodes} nodes each at alpha {settings.alpha}; lower it or raise alpha"
    )


def _owners(
    labels: NDArray[np.int64], settings: DirichletSettings, stream: np.random.Generator
) -> NDArray[np.int64]:
    owner = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        nodes = stream.permutation(np.flatnonzero(labels == label))
        shares = stream.dirichlet(np.full(settings.num_clients, settings.alpha))
        ends = np.round(np.cumsum(shares) * len(nodes))
        owner[nodes] = np.minimum(
            np.searchsorted(ends, np.arange(len(nodes)), side="right"), settings.num_clients - 1
        )
    return owner
