"""A partition: which nodes every client holds, and so which edges: those with both ends there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from scipy.sparse import csr_array
from torch import Tensor

from securefg.data.graph import Graph
from securefg.foundation.errors import DataError
from securefg.foundation.files import PRIVATE, write_atomically
from securefg.settings.partition import PartitionSettings

MANY_CLIENTS = 50_000
"""Above so many, clients are arrays: no object, line or fingerprint each."""


@dataclass(frozen=True)
class Partition:
    """Clients 0..K-1 and their nodes, which may overlap.

    num_nodes   of the whole graph; a node may be held by no client
    nodes       the node ids of all clients, one client after the other, ascending within each
    offsets     (K + 1,): client k holds nodes[offsets[k] : offsets[k + 1]]
    public      ids of the nodes that all clients hold and know to be shared, where the scheme has
                such nodes
    """

    name: str
    num_nodes: int
    nodes: Tensor
    offsets: Tensor
    public: Tensor | None = None

    def __post_init__(self) -> None:
        if self.offsets.numel() < 2 or (self.sizes < 1).any():
            raise DataError(f"partition {self.name!r}: a client without nodes; wanted at least one")
        if self.nodes.min() < 0 or self.nodes.max() >= self.num_nodes:
            raise DataError(f"partition {self.name!r}: a node outside 0 to {self.num_nodes - 1}")
        if (self.keys.diff() <= 0).any():
            raise DataError(f"partition {self.name!r}: a client's nodes do not ascend")

    @classmethod
    def of(
        cls,
        name: str,
        num_nodes: int,
        clients: Sequence[Tensor],
        public: Tensor | None = None,
    ) -> Partition:
        """From every client's nodes, in any order."""
        sizes = torch.tensor([0, *(len(nodes) for nodes in clients)])
        ordered = [torch.sort(nodes).values for nodes in clients] or [torch.tensor([])]
        return cls(name, num_nodes, torch.cat(ordered).long(), sizes.cumsum(0), public)

    @property
    def num_clients(self) -> int:
        """K."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Tensor:
        """The number of nodes of every client, (K,)."""
        return self.offsets.diff()

    @property
    def clients(self) -> tuple[Tensor, ...]:
        """Every client's node ids, ascending."""
        return torch.split(self.nodes, self.sizes.tolist())

    @property
    def owners(self) -> Tensor:
        """The client of every entry of `nodes`."""
        return torch.repeat_interleave(torch.arange(self.num_clients), self.sizes)

    @property
    def keys(self) -> Tensor:
        """client * N + node for every entry of `nodes`, ascending: for looking a holding up."""
        return self.owners * self.num_nodes + self.nodes

    def check_fits(self, graph: Graph) -> None:
        """Raise `DataError` for a graph with another number of nodes."""
        if graph.num_nodes != self.num_nodes:
            raise DataError(
                f"partition {self.name!r} is of {self.num_nodes} nodes; "
                f"the graph {graph.name!r} has {graph.num_nodes}"
            )

    def save(self, path: Path) -> None:
        """Write the partition to a safetensors file, whole or not at all."""
        tensors = {"nodes": self.nodes, "offsets": self.offsets}
        if self.public is not None:
            tensors["public"] = self.public
        tensors = {name: value.clone() for name, value in tensors.items()}  # may share memory
        facts = {"name": self.name, "num_nodes": str(self.num_nodes)}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, save(tensors, metadata=facts), mode=PRIVATE)

    @classmethod
    def load(cls, path: Path) -> Partition:
        """Read what `save` wrote. Raise `DataError` for a faulty file."""
        try:
            with safe_open(path, framework="pt") as file:
                facts = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return cls(facts["name"], int(facts["num_nodes"]), **tensors)
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: found {error!r}; wanted a stored partition") from error


@dataclass(frozen=True)
class Scheme:
    """A way to deal nodes to clients; a module outside this package offers one as PARTITION.

    settings  the keys below `partition` in a config
    draw      makes a partition of a graph; all its randomness comes from the generator
    """

    settings: type[PartitionSettings]
    draw: Callable[[Graph, Any, np.random.Generator], Partition]


@dataclass(frozen=True)
class Holdings:
    """Pairs of a client and a column of the graph's `edge_index`, by client, then by column."""

    client: Tensor
    edge: Tensor


def find_holdings(graph: Graph, partition: Partition) -> Holdings:
    """All pairs at once: P = M[source] * M[target] for the N x K membership matrix M.

    The work grows with the edges times the clients that hold an end, not with edges times clients.
    """
    partition.check_fits(graph)
    members = membership_matrix(partition).T.tocsr()
    source, target = graph.edge_index.numpy()
    both = members[source].multiply(members[target]).tocoo()
    order = np.lexsort((both.row, both.col))
    client, edge = both.col[order], both.row[order]
    return Holdings(torch.from_numpy(client).long(), torch.from_numpy(edge).long())


def most_holders(graph: Graph, partition: Partition) -> tuple[int, int]:
    """The largest number of clients that hold one node, and one edge."""
    nodes = torch.bincount(partition.nodes)
    edges = torch.bincount(find_holdings(graph, partition).edge)
    return int(nodes.max()), int(edges.max()) if len(edges) else 0


def membership_matrix(partition: Partition) -> csr_array[np.int64]:
    """The K x N matrix that is 1 where the client holds the node."""
    ones = np.ones(len(partition.nodes), np.int64)
    shape = (partition.num_clients, partition.num_nodes)
    parts = (ones, partition.nodes.numpy(), partition.offsets.numpy())
    return csr_array(parts, shape=shape)
