"""The schemes by name, and drawing one by its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from securefg.data.graph import Graph
from securefg.data.partition import Partition
from securefg.data.partitions import dirichlet, louvain, metis, one_node, public_private, shares
from securefg.foundation.streams import numpy_stream
from securefg.settings.partition import PartitionSettings

Draw = Callable[[Graph, Any, Any], Partition]

_SCHEMES: Mapping[str, Draw] = MappingProxyType(
    {
        "shares": shares.draw,
        "public_private": public_private.draw,
        "one_node": one_node.draw,
        "louvain": louvain.draw,
        "dirichlet": dirichlet.draw,
        "metis": metis.draw,
    }
)


def draw_partition(graph: Graph, settings: PartitionSettings, seed: int) -> Partition:
    """Deal the nodes of `graph` to clients; all randomness is the run's stream "partition"."""
    return _SCHEMES[settings.name](graph, settings, numpy_stream(seed, "partition"))
