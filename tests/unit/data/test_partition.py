from __future__ import annotations

from pathlib import Path

import pytest
import torch

from securefg.data.graph import Graph
from securefg.data.partition import Partition
from securefg.foundation.errors import DataError


def toy(public: torch.Tensor | None = None) -> Partition:
    return Partition.of("toy", 6, [torch.tensor([4, 0]), torch.tensor([0, 1, 5])], public)


def test_clients_are_sorted_whatever_the_order_given():
    assert [nodes.tolist() for nodes in toy().clients] == [[0, 4], [0, 1, 5]]
    assert toy().owners.tolist() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize("public", [None, torch.tensor([0])])
def test_a_stored_partition_comes_back_whole(tmp_path: Path, public: torch.Tensor | None):
    path = tmp_path / "run" / "partition.safetensors"
    toy(public).save(path)
    back = Partition.load(path)
    assert (back.name, back.num_nodes) == ("toy", 6)
    assert [nodes.tolist() for nodes in back.clients] == [[0, 4], [0, 1, 5]]
    assert (back.public is None) == (public is None)
    assert [file.name for file in path.parent.iterdir()] == ["partition.safetensors"]


@pytest.mark.parametrize("content", [b"", b"not safetensors at all"])
def test_a_damaged_file_is_a_data_error(tmp_path: Path, content: bytes):
    path = tmp_path / "partition.safetensors"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"partition\.safetensors: found .*; wanted a stored"):
        Partition.load(path)


def test_a_missing_file_is_a_data_error(tmp_path: Path):
    with pytest.raises(DataError, match="wanted a stored partition"):
        Partition.load(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("clients", "message"),
    [
        ([], "a client without nodes"),
        ([[0], []], "a client without nodes"),
        ([[0, 6]], "a node outside 0 to 5"),
        ([[-1, 0]], "a node outside 0 to 5"),
        ([[1, 1]], "do not ascend"),
    ],
)
def test_a_partition_that_cannot_be_is_refused(clients: list[list[int]], message: str):
    with pytest.raises(DataError, match=message):
        Partition.of("toy", 6, [torch.tensor(nodes, dtype=torch.int64) for nodes in clients])


def test_a_partition_of_another_graph_is_refused(graph: Graph):
    with pytest.raises(DataError, match="is of 6 nodes; the graph 'random' has 30"):
        toy().check_fits(graph)
