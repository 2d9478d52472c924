"""The effect of a partition on a graph, in numbers: sizes, lost edges, histograms, overlaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from securefg.data.graph import Graph
from securefg.data.partition import (
    MANY_CLIENTS,
    Holdings,
    Partition,
    find_holdings,
    membership_matrix,
)

MAX_OVERLAP_CLIENTS = 64

Ints = NDArray[np.int64]


class ClientStatistics(BaseModel):
    """One client's shard.

    num_edges         edges with both ends at the client
    num_lost_edges    edges of the whole graph with exactly one end at the client: it holds the
                      node but can never see the edge
    label_counts      nodes (or samples) of every class
    degree_counts     nodes by their degree in the shard: 0, 1, 2-3, 4-7, 8-15, ...
    num_train, ...    nodes (or samples) in every part of the split
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    client: int
    num_nodes: int
    num_edges: int
    num_lost_edges: int
    label_counts: tuple[int, ...]
    degree_counts: tuple[int, ...]
    num_train: int
    num_val: int
    num_test: int


class PartitionStatistics(BaseModel):
    """A partition of a graph; `model_dump(mode="json")` is plain data.

    num_union_nodes       nodes that at least one client holds
    num_common_nodes      nodes that every client holds
    num_unheld_edges      edges that no client holds
    overlap               nodes that clients i and j both hold; None above 64 clients
    clients               one by one; none above 50,000
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    num_clients: int
    num_union_nodes: int
    num_common_nodes: int
    num_unheld_edges: int
    overlap: tuple[tuple[int, ...], ...] | None
    clients: tuple[ClientStatistics, ...]


def statistics(graph: Graph, partition: Partition) -> PartitionStatistics:
    """All counts over all clients at once, whether there are six clients or twenty thousand."""
    held = find_holdings(graph, partition)
    holders = torch.bincount(partition.nodes, minlength=graph.num_nodes)
    unheld = graph.edge_index.shape[1] - len(torch.unique(held.edge))
    return PartitionStatistics(
        name=partition.name,
        num_clients=partition.num_clients,
        num_union_nodes=int((holders > 0).sum()),
        num_common_nodes=int((holders == partition.num_clients).sum()),
        num_unheld_edges=unheld // _count_listings(graph),
        overlap=_client_overlap(partition),
        clients=_client_statistics(graph, partition, held)
        if partition.num_clients <= MANY_CLIENTS
        else (),
    )


def _client_statistics(
    graph: Graph, partition: Partition, held: Holdings
) -> tuple[ClientStatistics, ...]:
    edges = torch.bincount(held.client, minlength=partition.num_clients).numpy()
    columns: dict[str, list[Any]] = {
        "num_nodes": partition.sizes.tolist(),
        "num_edges": (edges // _count_listings(graph)).tolist(),
        "num_lost_edges": _lost_edges(graph, partition, edges).tolist(),
        "label_counts": _client_totals(partition, _label_counts(graph)).tolist(),
        "degree_counts": _degree_counts(graph, partition, held).tolist(),
    }
    for part, name in (("train", "num_train"), ("val", "num_val"), ("test", "num_test")):
        inside = getattr(graph.split, part).reshape(graph.num_nodes, -1).sum(1)
        columns[name] = _client_totals(partition, inside.numpy()).tolist()
    rows = zip(*columns.values(), strict=True)
    return tuple(
        ClientStatistics(client=k, **dict(zip(columns, row, strict=True)))
        for k, row in enumerate(rows)
    )


def _client_totals(partition: Partition, values: Ints) -> Ints:
    """Sums of the nodes' values over every client's nodes."""
    return np.asarray(membership_matrix(partition) @ values)


def _count_listings(graph: Graph) -> int:
    """How often `edge_index` lists an edge."""
    return 1 if graph.directed else 2


def _lost_edges(graph: Graph, partition: Partition, edges: Ints) -> Ints:
    """Sum of degrees = 2 held + lost, where an edge is listed once for each of its ends."""
    degrees = torch.bincount(graph.edge_index.flatten(), minlength=graph.num_nodes)
    degrees = degrees // _count_listings(graph)
    return _client_totals(partition, degrees.numpy()) - 2 * (edges // _count_listings(graph))


def _label_counts(graph: Graph) -> Ints:
    """(N, C): the labels of every node's samples, where it has any."""
    labels = graph.labels.reshape(graph.num_nodes, -1)
    counts = torch.zeros(graph.num_nodes, graph.num_classes, dtype=torch.int64)
    return counts.scatter_add_(1, labels.clamp(min=0), (labels >= 0).long()).numpy()


def _degree_counts(graph: Graph, partition: Partition, held: Holdings) -> Ints:
    """(K, bins): bin 0 is degree 0, bin b > 0 is 2^(b-1) <= degree < 2^b."""
    ends = held.client * graph.num_nodes + graph.edge_index[:, held.edge]
    places = torch.searchsorted(partition.keys, ends).flatten()
    degrees = torch.bincount(places, minlength=len(partition.nodes)) // _count_listings(graph)
    # frexp writes d as m 2^e with 1/2 <= m < 1, so e is the bin, and 0 for d = 0.
    bins = np.frexp(degrees.numpy())[1].astype(np.int64)
    num_bins = int(bins.max()) + 1
    flat = partition.owners.numpy() * num_bins + bins
    counts = np.bincount(flat, minlength=partition.num_clients * num_bins)
    return counts.reshape(-1, num_bins)


def _client_overlap(partition: Partition) -> tuple[tuple[int, ...], ...] | None:
    if partition.num_clients > MAX_OVERLAP_CLIENTS:
        return None
    members = membership_matrix(partition)
    return tuple(tuple(row) for row in (members @ members.T).toarray().tolist())
