"""A shard: what one client holds of the graph. And their union: what all of them hold together."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from securefg.data.dataset import mask
from securefg.data.graph import Graph, Split
from securefg.data.holdings import Holdings, holdings
from securefg.data.partition import Partition


@dataclass(frozen=True)
class Shard:
    """The induced subgraph on a client's nodes; node i of `graph` is `node_ids[i]` of the whole.

    `public` are the positions of the nodes that all clients hold and know to be shared, in the
    order of their ids, where the partition has such nodes.

    Private to the client. `repr` shows sizes only.
    """

    client: int
    node_ids: Tensor
    graph: Graph
    public: Tensor | None = None

    def __repr__(self) -> str:
        sizes = f"{self.graph.num_nodes} nodes, {self.graph.num_edges} edges"
        return f"Shard(client={self.client}, {sizes})"


def shards(graph: Graph, partition: Partition) -> tuple[Shard, ...]:
    """Every client's shard, in one pass over the edges."""
    held = holdings(graph, partition)
    ends = _local_ends(graph, partition, held)
    counts = torch.bincount(held.client, minlength=partition.num_clients).tolist()
    pieces = zip(partition.clients, torch.split(ends, counts, dim=1), strict=True)
    return tuple(
        Shard(client, nodes, _induced(graph, nodes, edges), _positions(partition.public, nodes))
        for client, (nodes, edges) in enumerate(pieces)
    )


def union_graph(graph: Graph, partition: Partition) -> Graph:
    """The nodes any client holds and the edges any client holds, under their global ids.

    A node that no client holds stays in the index, without edges and outside every mask.
    """
    covered = torch.unique(holdings(graph, partition).edge)
    held = mask(partition.nodes, graph.num_nodes)
    held = held.reshape(-1, *[1] * (graph.split.train.dim() - 1))
    split = Split(graph.split.train & held, graph.split.val & held, graph.split.test & held)
    return replace(graph, edge_index=graph.edge_index[:, covered], split=split)


def _local_ends(graph: Graph, partition: Partition, held: Holdings) -> Tensor:
    """The ends of the held edges, counted from 0 within their client.

    A client's nodes ascend, so edges that were sorted by global id are sorted by local id too.
    """
    keys = held.client * graph.num_nodes + graph.edge_index[:, held.edge]
    return torch.searchsorted(partition.keys, keys) - partition.offsets[held.client]


def _positions(public: Tensor | None, nodes: Tensor) -> Tensor | None:
    return None if public is None else torch.searchsorted(nodes, public.sort().values)


def _induced(graph: Graph, nodes: Tensor, edges: Tensor) -> Graph:
    return replace(
        graph,
        features=graph.features[nodes],
        edge_index=edges.contiguous(),
        labels=graph.labels[nodes],
        split=graph.split[nodes],
    )
