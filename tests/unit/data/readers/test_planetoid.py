from __future__ import annotations

import os
import pickle
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from securefg.data.readers import planetoid
from securefg.data.readers.pickles import read_matrix
from securefg.foundation.errors import DataError

NUM_KNOWN = 510


@pytest.fixture
def citeseer(tmp_path: Path) -> Path:
    """510 known nodes, of which 4 train; the test nodes are 513, 510 and 511: 512 is left out."""
    known = np.eye(NUM_KNOWN, 6, dtype=np.float32)
    tested = np.full((3, 6), [[1], [2], [3]], np.float32)
    one_hot = np.eye(3, dtype=np.int32)
    content = {
        "x": csr_matrix(known[:4]),
        "y": one_hot[[0, 1, 2, 0]],
        "allx": csr_matrix(known),
        "ally": one_hot[np.arange(NUM_KNOWN) % 3],
        "tx": csr_matrix(tested),
        "ty": one_hot[[2, 1, 2]],
        "graph": defaultdict(list, {0: [1, 1, 0], 1: [0], 510: [2], 512: []}),
    }
    for value, file in zip(content.values(), _paths(tmp_path, content), strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(pickle.dumps(value, protocol=4))
    (tmp_path / planetoid.files("citeseer")[-1]).write_text("513\n510\n511\n")
    return tmp_path


def _paths(root: Path, parts) -> list[Path]:
    stem = root / "Planetoid/CiteSeer/raw"
    return [stem / f"ind.citeseer.{part}" for part in parts]


def test_a_node_missing_from_the_test_index_is_a_zero_row(citeseer: Path):
    dataset = planetoid.read(citeseer, "citeseer")
    assert dataset.num_nodes == 514
    assert dataset.features[510:, 0].tolist() == [2, 3, 0, 1]
    assert dataset.labels[510:].tolist() == [1, 2, 0, 2]


def test_the_public_split_is_x_then_500_then_the_test_index(citeseer: Path):
    dataset = planetoid.read(citeseer, "citeseer")
    assert dataset.train[0].nonzero().flatten().tolist() == [0, 1, 2, 3]
    assert dataset.val[0].nonzero().flatten().tolist() == list(range(4, 504))
    assert dataset.test[0].nonzero().flatten().tolist() == [510, 511, 513]


def test_edges_are_in_both_directions_without_loops_and_duplicates(citeseer: Path):
    edges = planetoid.read(citeseer, "citeseer").edge_index
    assert edges.T.tolist() == [[0, 1], [1, 0], [2, 510], [510, 2]]


class Harmful:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return os.mkdir, (str(self.target),)


def test_a_pickle_that_asks_for_another_function_is_refused_before_the_call(tmp_path: Path):
    path = tmp_path / "ind.cora.x"
    path.write_bytes(pickle.dumps(Harmful(tmp_path / "made")))
    with pytest.raises(DataError, match=r"ind\.cora\.x: found the pickle asks for \w+\.mkdir"):
        read_matrix(path)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("content", [b"", b"not a pickle", pickle.dumps(np.ones(9))[:-20]])
def test_a_damaged_pickle_is_a_data_error(tmp_path: Path, content: bytes):
    path = tmp_path / "ind.cora.x"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"ind\.cora\.x"):
        read_matrix(path)


def test_a_pickle_of_the_wrong_thing_is_a_data_error(citeseer: Path):
    (path,) = _paths(citeseer, ["allx"])
    path.write_bytes(pickle.dumps([1, 2], protocol=4))
    with pytest.raises(DataError, match="wanted a pickled matrix"):
        planetoid.read(citeseer, "citeseer")


def test_an_edge_to_a_node_that_is_not_there_is_a_data_error(citeseer: Path):
    (path,) = _paths(citeseer, ["graph"])
    path.write_bytes(pickle.dumps(defaultdict(list, {0: [999]}), protocol=4))
    with pytest.raises(DataError, match="found node 999; wanted 0 to 513"):
        planetoid.read(citeseer, "citeseer")


def test_features_are_float32_and_labels_int64(citeseer: Path):
    dataset = planetoid.read(citeseer, "citeseer")
    assert (dataset.features.dtype, dataset.labels.dtype) == (torch.float32, torch.int64)


def test_parts_that_do_not_fit_together_are_a_data_error(citeseer: Path):
    (citeseer / planetoid.files("citeseer")[-1]).write_text("513\n510\n")
    with pytest.raises(DataError, match="wanted parts that fit together"):
        planetoid.read(citeseer, "citeseer")
