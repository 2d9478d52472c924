"""Disjoint clients that cut as few edges as possible.

Karypis and Kumar, "A Fast and High Quality Multilevel Scheme for Partitioning Irregular Graphs",
1998, through the optional package pymetis.
"""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np
import torch
from numpy.typing import NDArray

from securefg.data.graph import Graph, undirected
from securefg.data.partition import Partition
from securefg.data.partitions.limits import check_num_clients
from securefg.foundation.errors import ConfigError
from securefg.settings.partition import MetisSettings


def draw(graph: Graph, settings: MetisSettings, stream: np.random.Generator) -> Partition:
    check_num_clients(settings.num_clients, graph)
    pymetis = _pymetis()
    options = pymetis.Options(seed=int(stream.integers(2**31)))
    cut = pymetis.part_graph(settings.num_clients, _neighbours(graph), options=options)
    owner = np.asarray(cut[1])
    clients = [np.flatnonzero(owner == k) for k in range(settings.num_clients)]
    if min(map(len, clients)) == 0:
        raise ConfigError(
            f"partition.num_clients: METIS left one of {settings.num_clients} clients empty; "
            "allowed: fewer clients"
        )
    return Partition.of("metis", graph.num_nodes, [torch.from_numpy(nodes) for nodes in clients])


def _pymetis() -> ModuleType:
    try:
        return importlib.import_module("pymetis")
    except ImportError as error:
        raise ConfigError(
            "partition.name: 'metis' needs pymetis: pip install 'securefg[metis]'; "
            "without it: louvain"
        ) from error


def _neighbours(graph: Graph) -> list[NDArray[np.int64]]:
    source, target = undirected(graph.edge_index, graph.num_nodes).numpy()
    bounds = np.cumsum(np.bincount(source, minlength=graph.num_nodes))[:-1]
    return np.split(target, bounds)
