"""Every node a client, as in GFL-APPNP and nFedGNN."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import torch

from securefg.data.graph import Graph
from securefg.data.partition import Partition
from securefg.foundation.settings import Settings


class OneNodeSettings(Settings):
    summary: ClassVar[str] = "every node is a client (GFL-APPNP, nFedGNN)"

    name: Literal["one_node"] = "one_node"


def draw(graph: Graph, settings: OneNodeSettings, stream: np.random.Generator) -> Partition:
    bounds = torch.arange(graph.num_nodes + 1)
    return Partition("one_node", graph.num_nodes, nodes=bounds[:-1], offsets=bounds)
