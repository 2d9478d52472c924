"""What every partition must keep, whoever wrote it: the shipped ones and one from outside."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from securefg.data.partition import Partition
from securefg.data.partitions import draw_partition
from securefg.data.shard import shards
from securefg.settings.partition import SHIPPED, PartitionSettings, partition_settings
from tests.unit.data.graphs import random_graph

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_data"
OWNERS = torch.arange(60) % 3
GRAPH = random_graph(num_nodes=60, num_pairs=150)
SMALL: dict[str, dict[str, Any]] = {
    "louvain": {"num_clients": 4},
    "dirichlet": {"num_clients": 3, "min_nodes": 2},
    "random": {"num_clients": 4},
    "feature_group": {"first": 0, "count": 3, "min_nodes": 5},
    "remaining": {"of": {"name": "random", "num_clients": 5}, "without_nodes": [0, 7]},
}


def settings_of(name: str) -> PartitionSettings:
    return partition_settings(name).model_validate({"name": name, **SMALL.get(name, {})})


def draw(name: str, seed: int) -> Partition:
    from dataclasses import replace

    graph = replace(GRAPH, owners=OWNERS) if name == "given" else GRAPH
    if name == "feature_group":
        graph = replace(GRAPH, features=torch.eye(3)[OWNERS])
    return draw_partition(graph, settings_of(name), seed)


@pytest.fixture(params=[*(name for name in SHIPPED if name != "metis"), "two_rings"])
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.syspath_prepend(EXAMPLE)
    yield str(request.param)
    sys.modules.pop("two_rings", None)  # a module that is loaded needs no trust any more


def test_draw_depends_on_the_named_stream_alone(name: str) -> None:
    np.random.seed(1)
    torch.manual_seed(1)
    first = draw(name, seed=5)
    np.random.seed(2)
    torch.manual_seed(2)
    before = torch.get_rng_state(), np.random.get_state()[1]
    again = draw(name, seed=5)
    assert torch.equal(first.nodes, again.nodes)
    assert torch.equal(first.offsets, again.offsets)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])


def test_draw_other_seed_changes_a_drawn_partition(name: str) -> None:
    drawn = [draw(name, seed) for seed in range(4)]
    differ = any(
        not torch.equal(drawn[0].nodes, other.nodes)
        or not torch.equal(drawn[0].offsets, other.offsets)
        for other in drawn[1:]
    )
    assert differ == (name not in ("one_node", "given", "feature_group"))


def test_shards_hold_the_nodes_of_their_client(name: str) -> None:
    partition = draw(name, seed=0)
    found = tuple(shards(GRAPH, partition))
    assert len(found) == partition.num_clients
    for shard, nodes in zip(found, partition.clients, strict=True):
        assert torch.equal(shard.node_ids, nodes)
        assert torch.equal(shard.graph.features, GRAPH.features[nodes])


def test_settings_say_the_truth_about_the_partition(name: str) -> None:
    partition, settings = draw(name, seed=0), settings_of(name)
    assert settings.count_clients(GRAPH.num_nodes) in (None, partition.num_clients)
    if settings.disjoint:
        assert torch.equal(torch.sort(partition.nodes).values, torch.arange(GRAPH.num_nodes))
