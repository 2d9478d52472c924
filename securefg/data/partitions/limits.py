"""The bound that every scheme with disjoint clients has: no more clients than nodes."""

from __future__ import annotations

from securefg.data.graph import Graph
from securefg.foundation.errors import ConfigError


def check_num_clients(num_clients: int, graph: Graph, min_nodes: int = 1) -> None:
    most = graph.num_nodes // min_nodes
    if num_clients > most:
        raise ConfigError(
            f"partition.num_clients: {num_clients}; allowed for {graph.num_nodes} nodes with at "
            f"least {min_nodes} at a client: 1 to {most}"
        )
