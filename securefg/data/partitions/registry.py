"""The schemes by name, and drawing one by its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from securefg.data.graph import Graph
from securefg.data.partition import Partition
from securefg.data.partitions import dirichlet, louvain, metis, one_node, public_private, shares
from securefg.foundation.streams import numpy_stream
from securefg.settings.partition import (
    DirichletSettings,
    LouvainSettings,
    MetisSettings,
    OneNodeSettings,
    PartitionSettings,
    PublicPrivateSettings,
    SharesSettings,
)


class _Scheme(NamedTuple):
    summary: str
    draw: Callable[[Graph, Any, Any], Partition]


_SCHEMES: Mapping[str, _Scheme] = MappingProxyType(
    {
        "shares": _Scheme(SharesSettings.summary, shares.draw),
        "public_private": _Scheme(PublicPrivateSettings.summary, public_private.draw),
        "one_node": _Scheme(OneNodeSettings.summary, one_node.draw),
        "louvain": _Scheme(LouvainSettings.summary, louvain.draw),
        "dirichlet": _Scheme(DirichletSettings.summary, dirichlet.draw),
        "metis": _Scheme(MetisSettings.summary, metis.draw),
    }
)

PARTITIONS: Mapping[str, str] = MappingProxyType(
    {name: scheme.summary for name, scheme in _SCHEMES.items()}
)


def draw_partition(graph: Graph, settings: PartitionSettings, seed: int) -> Partition:
    """Deal the nodes of `graph` to clients; all randomness is the run's stream "partition"."""
    return _SCHEMES[settings.name].draw(graph, settings, numpy_stream(seed, "partition"))
