"""Small random graphs for tests."""

from __future__ import annotations

import numpy as np
import torch

from securefg.data.dataset import boolean_mask
from securefg.data.graph import Graph, Split, sorted_edges, undirected


def random_graph(
    num_nodes: int = 30, num_pairs: int = 60, seed: int = 0, directed: bool = False
) -> Graph:
    stream = np.random.default_rng(seed)
    pairs = torch.from_numpy(stream.integers(num_nodes, size=(2, num_pairs)))
    order = torch.from_numpy(stream.permutation(num_nodes))
    train, val, test = order.tensor_split(3)
    return Graph(
        name="random",
        features=torch.from_numpy(stream.random((num_nodes, 4), dtype=np.float32)),
        edge_index=(sorted_edges if directed else undirected)(pairs, num_nodes),
        labels=torch.arange(num_nodes) % 3,
        split=Split(
            boolean_mask(train, num_nodes),
            boolean_mask(val, num_nodes),
            boolean_mask(test, num_nodes),
        ),
        num_classes=3,
        directed=directed,
    )
