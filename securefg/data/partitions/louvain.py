"""Communities packed into clients of about equal size.

Blondel et al., "Fast unfolding of communities in large networks", 2008; the packing is the usual
one of subgraph federated learning (OpenFGL, Li et al., 2024). A community above N / K nodes is cut;
then, from the largest to the smallest, each goes to the client that has the fewest nodes.
"""

from __future__ import annotations

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray

from securefg.data.graph import Graph
from securefg.data.partition import Partition
from securefg.data.partitions.limits import check_num_clients
from securefg.settings.partition import LouvainSettings

Ints = NDArray[np.int64]


def draw(graph: Graph, settings: LouvainSettings, stream: np.random.Generator) -> Partition:
    check_num_clients(settings.num_clients, graph)
    limit = graph.num_nodes // settings.num_clients
    groups = _cut(_communities(graph, settings.resolution, stream), limit)
    clients = [torch.from_numpy(nodes) for nodes in _packed(groups, settings.num_clients)]
    return Partition.of("louvain", graph.num_nodes, clients)


def _communities(graph: Graph, resolution: float, stream: np.random.Generator) -> list[Ints]:
    network = nx.Graph()
    network.add_nodes_from(range(graph.num_nodes))
    network.add_edges_from(graph.edge_index.T.tolist())
    seed = int(stream.integers(2**32))
    found = nx.community.louvain_communities(network, resolution=resolution, seed=seed)
    return [np.array(sorted(nodes), np.int64) for nodes in found]


def _cut(groups: list[Ints], limit: int) -> list[Ints]:
    """Pieces of `limit` nodes and a remainder."""
    return [piece for nodes in groups for piece in np.split(nodes, range(limit, len(nodes), limit))]


def _packed(groups: list[Ints], num_clients: int) -> list[Ints]:
    clients: list[list[Ints]] = [[] for _ in range(num_clients)]
    sizes = np.zeros(num_clients, np.int64)
    for nodes in sorted(groups, key=lambda nodes: (-len(nodes), int(nodes[0]))):
        smallest = int(sizes.argmin())
        clients[smallest].append(nodes)
        sizes[smallest] += len(nodes)
    return [np.concatenate(parts) for parts in clients]
