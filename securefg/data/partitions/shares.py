"""Random shares that overlap, as FedGL samples its clients.

Chen et al., "FedGL: Federated Graph Learning Framework with Global Self-Supervision", 2021,
sections 5.3.1 and 5.6.3. Client k holds round(s_k N) nodes drawn at random. The paper's
"overlapping ratio" is the share of nodes that ALL clients hold: it calls it "about 1 %" for its
shares when they are drawn freely, and prod s_k = 1.3 % is that. With `overlap` r exactly
round(r N) nodes are held by all, and the shares stay as they are.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from securefg.data.graph import Graph
from securefg.data.partition import Partition
from securefg.foundation.errors import ConfigError
from securefg.settings.partition import SharesSettings

Ints = NDArray[np.int64]


def draw(graph: Graph, settings: SharesSettings, stream: np.random.Generator) -> Partition:
    sizes = [round(share * graph.num_nodes) for share in settings.shares]
    if min(sizes) < 1:
        raise ConfigError(
            f"partition.shares: {min(settings.shares)} of {graph.num_nodes} nodes is none; "
            f"allowed: shares of at least one node, {1 / graph.num_nodes:.2g}"
        )
    if settings.overlap is None:
        clients = [stream.choice(graph.num_nodes, size, replace=False) for size in sizes]
    else:
        clients = _with_common(graph.num_nodes, sizes, settings.overlap, stream)
    return Partition.of("shares", graph.num_nodes, [torch.from_numpy(c) for c in clients])


def _with_common(
    num_nodes: int, sizes: list[int], overlap: float, stream: np.random.Generator
) -> list[Ints]:
    """Every other node is barred from one client, so no node but the common ones is with all.

    Client k misses N - n_k nodes and can bar as many; the barred clients are dealt out of that.
    """
    num_common = round(overlap * num_nodes)
    _check_possible(num_nodes, sizes, num_common)
    common, rest = np.split(stream.permutation(num_nodes), [num_common])
    misses = np.repeat(np.arange(len(sizes)), num_nodes - np.array(sizes))
    barred = stream.permutation(misses)[: len(rest)]
    return [
        np.concatenate([common, stream.choice(rest[barred != k], size - num_common, replace=False)])
        for k, size in enumerate(sizes)
    ]


def _check_possible(num_nodes: int, sizes: list[int], num_common: int) -> None:
    least = max(0, sum(sizes) - (len(sizes) - 1) * num_nodes)
    if not least <= num_common <= min(sizes):
        raise ConfigError(
            f"partition.overlap: {num_common} of {num_nodes} nodes at every client; "
            f"allowed for these shares: {least} to {min(sizes)} nodes"
        )
