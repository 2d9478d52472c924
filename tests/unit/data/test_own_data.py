"""Datasets and partitions that a module outside the package defines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from securefg.data.datasets import load
from securefg.data.partitions import draw_partition
from securefg.foundation import extensions
from securefg.foundation.errors import ConfigError, DataError
from securefg.foundation.extensions import only_known_modules
from securefg.runs.planning import published_sizes
from securefg.settings.config import RunConfig, config_schema, parse_config
from securefg.settings.data import DataSettings
from securefg.settings.partition import partition_settings

EXAMPLE = Path(__file__).parents[3] / "examples" / "own_data"


@pytest.fixture(autouse=True)
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLE)
    yield
    for name in ("two_rings", "wrong"):
        sys.modules.pop(name, None)


def config(**partition: object) -> RunConfig:
    return parse_config(
        {
            "method": {"name": "fedgl"},
            "data": {"name": "two_rings"},
            "partition": {"name": "two_rings", **partition},
        }
    )


def write_module(tmp_path: Path, text: str) -> None:
    (tmp_path / "wrong.py").write_text(text)


def test_load_outside_dataset_is_cleaned_and_repeatable() -> None:
    graph, again = (load(DataSettings(name="two_rings"), seed=3) for _ in "ab")
    assert (graph.num_nodes, graph.num_edges, graph.num_classes) == (120, 120, 2)
    assert torch.equal(graph.edge_index, graph.edge_index.flip(0)[:, _by_row(graph.edge_index)])
    assert torch.equal(graph.features, again.features)
    other = load(DataSettings(name="two_rings"), seed=4)
    assert not torch.equal(graph.features, other.features)


def _by_row(edges: torch.Tensor) -> torch.Tensor:
    return torch.argsort(edges[1] * 120 + edges[0])


def test_parse_outside_partition_keeps_its_own_settings() -> None:
    found = config(num_clients=5)
    assert parse_config(found.model_dump(mode="json")) == found
    assert found.hash != config(num_clients=4).hash
    partition = draw_partition(load(found.data, 0), found.partition, seed=0)
    assert partition.sizes.tolist() == [24] * 5


def test_parse_outside_partition_unknown_key_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"partition\.clients: found an unknown key.*num_clients"):
        config(clients=5)


def test_published_sizes_come_from_outside_info() -> None:
    info = published_sizes(config(num_clients=5))
    assert (info.num_nodes, info.num_clients, info.node_holders) == (120, 5, 1)


@pytest.mark.parametrize("key", ["data", "partition"])
def test_parse_module_named_by_a_folder_is_not_imported(key: str) -> None:
    tree = {"method": {"name": "fedgl"}, "data": {"name": "csbm"}, key: {"name": "two_rings"}}
    with only_known_modules(), pytest.raises(ConfigError, match="--trust-modules imports it"):
        parse_config(tree)
    assert "two_rings" not in sys.modules


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("data", "data.name: found 'no_such_thing'; expected cora.*or a module path"),
        ("partition", "partition.name: found 'no_such_thing'; expected shares.*or a module path"),
    ],
)
def test_parse_unknown_name_lists_the_allowed_names(key: str, message: str) -> None:
    tree = {"method": {"name": "fedgl"}, "data": {"name": "csbm"}, key: {"name": "no_such_thing"}}
    with pytest.raises(ConfigError, match=message):
        parse_config(tree)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DATASET = 3", "found no DATASET with a DatasetInfo in module 'wrong'"),
        (
            "from two_rings import *\nDATASET = Source(DATASET.info, lambda root, stream: 3)",
            "found int from 'wrong'; expected a Source that reads a Dataset",
        ),
        (
            "from dataclasses import replace\nfrom two_rings import *\n"
            "def bad(root, stream):\n"
            "    found = read(root, stream)\n"
            "    return replace(found, features=found.features.double())\n"
            "DATASET = Source(DATASET.info, bad)",
            "expected float32 features",
        ),
        (
            "from dataclasses import replace\nfrom two_rings import *\n"
            "def bad(root, stream):\n"
            "    found = read(root, stream)\n"
            "    return replace(found, edge_index=found.edge_index + 1)\n"
            "DATASET = Source(DATASET.info, bad)",
            "found an edge to no node",
        ),
    ],
)
def test_load_faulty_outside_dataset_is_refused(tmp_path: Path, text: str, message: str) -> None:
    write_module(tmp_path, text)
    with pytest.raises((ConfigError, DataError), match=message):
        load(DataSettings(name="wrong"), seed=0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PARTITION = 3", "found no PARTITION with settings in module 'wrong'"),
        (
            "from two_rings import *\nPARTITION = Scheme(ArcSettings, lambda *_: [[1], [2]])",
            "found list from 'wrong'; expected a Partition",
        ),
        (
            "from two_rings import *\ndef bad(graph, settings, stream):\n"
            "    return Partition.of('bad', 7, [torch.arange(7)])\n"
            "PARTITION = Scheme(ArcSettings, bad)",
            "is of 7 nodes",
        ),
    ],
)
def test_draw_faulty_outside_partition_is_refused(tmp_path: Path, text: str, message: str) -> None:
    write_module(tmp_path, text)
    graph = load(DataSettings(name="two_rings"), seed=0)
    with pytest.raises((ConfigError, DataError), match=message):
        draw_partition(graph, partition_settings("wrong")(name="wrong"), seed=0)


def test_entry_points_name_datasets_and_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = {
        "securefg.datasets": {"rings": "two_rings"},
        "securefg.partitions": {"arcs": "two_rings"},
    }
    for module in ("securefg.settings.datasets", "securefg.settings.partition"):
        monkeypatch.setattr(f"{module}.installed", lambda group: groups.get(group, {}))
    monkeypatch.setattr(extensions, "installed", lambda group: groups.get(group, {}))
    found = parse_config(
        {"method": {"name": "fedgl"}, "data": {"name": "rings"}, "partition": {"name": "arcs"}}
    )
    partition = draw_partition(load(found.data, 0), found.partition, seed=0)
    assert (partition.name, partition.num_clients) == ("arcs", 3)
    assert "partition_arcs" in config_schema()["$defs"]
