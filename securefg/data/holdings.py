"""Which client holds which edge: a client holds an edge if it holds both of its ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from securefg.data.graph import Graph
from securefg.data.partition import Partition


@dataclass(frozen=True)
class Holdings:
    """Pairs of a client and a column of the graph's `edge_index`, by client, then by column."""

    client: Tensor
    edge: Tensor


def holdings(graph: Graph, partition: Partition) -> Holdings:
    """All pairs at once: P = M[source] * M[target] for the N x K membership matrix M.

    The work grows with the edges times the clients that hold an end, not with edges times clients.
    """
    partition.check_fits(graph)
    members = membership(partition).T.tocsr()
    source, target = graph.edge_index.numpy()
    both = members[source].multiply(members[target]).tocoo()
    order = np.lexsort((both.row, both.col))
    client, edge = both.col[order], both.row[order]
    return Holdings(torch.from_numpy(client).long(), torch.from_numpy(edge).long())


def membership(partition: Partition) -> csr_array[np.int64]:
    """The K x N matrix that is 1 where the client holds the node."""
    ones = np.ones(len(partition.nodes), np.int64)
    shape = (partition.num_clients, partition.num_nodes)
    parts = (ones, partition.nodes.numpy(), partition.offsets.numpy())
    return csr_array(parts, shape=shape)
