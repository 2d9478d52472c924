"""Every node a client, as in GFL-APPNP and nFedGNN."""

from __future__ import annotations

import numpy as np
import torch

from securefg.data.graph import Graph
from securefg.data.partition import Partition
from securefg.settings.partition import OneNodeSettings


def draw(graph: Graph, settings: OneNodeSettings, stream: np.random.Generator) -> Partition:
    bounds = torch.arange(graph.num_nodes + 1)
    return Partition("one_node", graph.num_nodes, nodes=bounds[:-1], offsets=bounds)
