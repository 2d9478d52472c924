"""Public nodes at every client, private nodes dealt out, as PPFL-GNN does.

A share of the nodes is public: drawn at random, or those of highest degree (ties by id). The
others are shuffled and dealt in equal parts. It is also K disjoint equal parts with a common
overlap: `public_share` is that overlap, and 0 gives disjoint parts.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from securefg.data.graph import Graph
from securefg.data.partition import Partition
from securefg.foundation.errors import ConfigError
from securefg.settings.partition import PublicPrivateSettings


def draw(graph: Graph, settings: PublicPrivateSettings, stream: np.random.Generator) -> Partition:
    num_public = round(settings.public_share * graph.num_nodes)
    order = stream.permutation(graph.num_nodes)
    if settings.selection == "top_degree":
        public = _by_degree(graph)[:num_public]
        private = order[~np.isin(order, public)]
    else:
        public, private = np.split(order, [num_public])
    if len(private) < settings.num_clients and not num_public:
        raise ConfigError(
            f"partition.num_clients: {settings.num_clients}; allowed: 1 to {graph.num_nodes} nodes"
        )
    parts = np.array_split(private, settings.num_clients)
    clients = [torch.from_numpy(np.concatenate([public, part])) for part in parts]
    shared = torch.from_numpy(np.sort(public))
    return Partition.of("public_private", graph.num_nodes, clients, shared)


def _by_degree(graph: Graph) -> NDArray[np.int64]:
    """Nodes from the highest degree to the lowest; in a directed graph both directions count."""
    degrees = np.bincount(graph.edge_index.numpy().ravel(), minlength=graph.num_nodes)
    return np.argsort(-degrees, kind="stable")
