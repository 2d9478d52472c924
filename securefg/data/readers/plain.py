"""The two lists that ACM and Wiki share: edges as pairs of nodes, one label per node."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from securefg.data.graph import undirected
from securefg.data.tables import read_table


def read_edges(path: Path, num_nodes: int) -> Tensor:
    """Lines of two nodes; both directions are listed, self-loops and duplicates dropped."""
    table = read_table(path, np.int64, columns=2)
    for column in (0, 1):
        ends = table.values[:, column]
        table.require((ends >= 0) & (ends < num_nodes), column, f"a node from 0 to {num_nodes - 1}")
    return undirected(torch.from_numpy(table.values.T.copy()), num_nodes)
