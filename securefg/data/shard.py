"""A shard: what one client holds of the graph, their union, and shards stored in a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import overload

import numpy as np
import safetensors
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor

from securefg.data.dataset import boolean_mask
from securefg.data.graph import Graph, Split
from securefg.data.partition import MANY_CLIENTS, Holdings, Partition, find_holdings
from securefg.foundation.errors import DataError
from securefg.foundation.files import PRIVATE, write_atomically


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


class Shards(Sequence[Shard]):
    """The shards of a range of clients, each cut out of the arrays of all when it is asked for."""

    def __init__(
        self,
        graph: Graph,
        partition: Partition,
        ends: Tensor,
        edges: Tensor,
        offsets: Tensor,
        clients: range,
    ) -> None:
        """`ends`: of all clients' edges; client k's are columns offsets[k] to offsets[k + 1].

        `edges`: which edges of the graph they are.
        """
        self._graph, self._partition, self._ends, self._offsets = graph, partition, ends, offsets
        self._edges, self.clients = edges, clients

    def __len__(self) -> int:
        return len(self.clients)

    @overload
    def __getitem__(self, place: int) -> Shard: ...
    @overload
    def __getitem__(self, place: slice) -> Shards: ...
    def __getitem__(self, place: int | slice) -> Shard | Shards:
        client = self.clients[place]
        if isinstance(client, range):
            parts = (self._ends, self._edges, self._offsets)
            return Shards(self._graph, self._partition, *parts, client)
        nodes = self._client_nodes(client, client + 1)
        own = slice(int(self._offsets[client]), int(self._offsets[client + 1]))
        public = _public_positions(self._partition.public, nodes)
        found = _induced_graph(self._graph, nodes, self._ends[:, own], self._edges[own])
        return Shard(client, nodes, found, public)

    @property
    def features(self) -> Tensor:
        """Of all nodes, one client after the other."""
        return self._graph.features[self.node_ids]

    @property
    def node_ids(self) -> Tensor:
        """Of all nodes, one client after the other."""
        return self._client_nodes(self.clients.start, self.clients.stop)

    def _client_nodes(self, first: int, end: int) -> Tensor:
        offsets = self._partition.offsets
        return self._partition.nodes[offsets[first] : offsets[end]]


def shards(graph: Graph, partition: Partition) -> Sequence[Shard]:
    """Every client's shard, in one pass over the edges; of very many, cut out on demand."""
    held = find_holdings(graph, partition)
    ends = _local_ends(graph, partition, held)
    counts = torch.bincount(held.client, minlength=partition.num_clients)
    offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    found = Shards(graph, partition, ends, held.edge, offsets, range(partition.num_clients))
    return found if partition.num_clients > MANY_CLIENTS else tuple(found)


def features_of(shards: Sequence[Shard]) -> Tensor:
    """The features of all nodes, one client after the other."""
    if isinstance(shards, Shards):
        return shards.features
    return torch.cat([shard.graph.features for shard in shards])


def node_ids_of(shards: Sequence[Shard]) -> Tensor:
    """The ids of all nodes, one client after the other."""
    if isinstance(shards, Shards):
        return shards.node_ids
    return torch.cat([shard.node_ids for shard in shards])


def clients_of(shards: Sequence[Shard]) -> NDArray[np.int64]:
    """The numbers of the clients, in the shards' order."""
    if isinstance(shards, Shards):
        return np.arange(shards.clients.start, shards.clients.stop)
    return np.array([shard.client for shard in shards])


def union_graph(graph: Graph, partition: Partition) -> Graph:
    """The nodes any client holds and the edges any client holds, under their global ids.

    A node that no client holds stays in the index, without edges and outside every mask.
    """
    covered = torch.unique(find_holdings(graph, partition).edge)
    held = boolean_mask(partition.nodes, graph.num_nodes)
    held = held.reshape(-1, *[1] * (graph.split.train.dim() - 1))
    split = Split(graph.split.train & held, graph.split.val & held, graph.split.test & held)
    return replace(graph.keep_edges(covered), split=split)


def _local_ends(graph: Graph, partition: Partition, held: Holdings) -> Tensor:
    """The ends of the held edges, counted from 0 within their client.

    A client's nodes ascend, so edges that were sorted by global id are sorted by local id too.
    """
    keys = held.client * graph.num_nodes + graph.edge_index[:, held.edge]
    return torch.searchsorted(partition.keys, keys) - partition.offsets[held.client]


def _public_positions(public: Tensor | None, nodes: Tensor) -> Tensor | None:
    return None if public is None else torch.searchsorted(nodes, public.sort().values)


def _induced_graph(graph: Graph, nodes: Tensor, ends: Tensor, edges: Tensor) -> Graph:
    """The client's part: `ends` counts nodes from 0 within it, `edges` are the graph's own."""
    return replace(
        graph,
        features=graph.features[nodes],
        edge_index=ends.contiguous(),
        edge_features=None if graph.edge_features is None else graph.edge_features[edges],
        labels=graph.labels[nodes],
        split=graph.split[nodes],
        owners=None,
    )


def save_shards(path: Path, shards: Sequence[Shard]) -> None:
    """Write shards to one safetensors file, whole or not at all."""
    arrays: dict[str, Tensor] = {}
    for i, shard in enumerate(shards):
        graph = shard.graph
        parts = {
            "node_ids": shard.node_ids,
            "features": graph.features,
            "edge_index": graph.edge_index,
            "labels": graph.labels,
            "train": graph.split.train,
            "val": graph.split.val,
            "test": graph.split.test,
        }
        if shard.public is not None:
            parts["public"] = shard.public
        if graph.edge_features is not None:
            parts["edge_features"] = graph.edge_features
        arrays.update({f"{i}.{name}": part.clone() for name, part in parts.items()})
    facts = [
        {
            "client": s.client,
            "name": s.graph.name,
            "num_classes": s.graph.num_classes,
            "directed": s.graph.directed,
            "public": s.public is not None,
            **({"edge_features": True} if s.graph.edge_features is not None else {}),
        }
        for s in shards
    ]
    stored = safetensors.torch.save(arrays, metadata={"shards": json.dumps(facts)})
    write_atomically(path, stored, mode=PRIVATE)


def load_shards(path: Path) -> tuple[Shard, ...]:
    """Read what `save_shards` wrote. Raise `DataError` for a faulty file."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            facts = json.loads(file.metadata()["shards"])
            return tuple(_load_shard(file, i, fact) for i, fact in enumerate(facts))
    except (OSError, safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: found {error!r}; wanted stored shards") from error


def _load_shard(file: safetensors.safe_open, i: int, fact: dict[str, object]) -> Shard:
    def get(name: str) -> Tensor:
        return file.get_tensor(f"{i}.{name}")  # type: ignore[no-any-return, no-untyped-call]

    client = fact.pop("client")
    public = get("public") if fact.pop("public", False) else None
    edge_features = get("edge_features") if fact.pop("edge_features", False) else None
    graph = Graph(
        edge_features=edge_features,
        features=get("features"),
        edge_index=get("edge_index"),
        labels=get("labels"),
        split=Split(get("train"), get("val"), get("test")),
        **fact,  # type: ignore[arg-type]
    )
    return Shard(client, get("node_ids"), graph, public)  # type: ignore[arg-type]
