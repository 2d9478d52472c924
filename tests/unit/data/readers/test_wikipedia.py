from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from securefg.data.readers import wikipedia
from securefg.foundation.errors import DataError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    nodes, edges, *splits = (tmp_path / file for file in wikipedia.files("chameleon"))
    nodes.parent.mkdir(parents=True)
    nodes.write_text("node_id\tfeature\tlabel\n0\t1,0\t2\n1\t0,1\t0\n2\t1,1\t1\n")
    edges.write_text("node_id\tnode_id\n2\t0\n0\t1\n1\t1\n")
    for index, path in enumerate(splits):
        chosen = np.arange(3) == index % 3
        np.savez(path, train_mask=chosen, val_mask=~chosen, test_mask=np.zeros(3, np.uint8))
    return tmp_path


def test_edges_stay_directed_and_loops_go(root: Path):
    dataset = wikipedia.read(root, "chameleon")
    assert dataset.directed
    assert dataset.edge_index.T.tolist() == [[0, 1], [2, 0]]
    assert dataset.features.tolist() == [[1, 0], [0, 1], [1, 1]]
    assert dataset.labels.tolist() == [2, 0, 1]


def test_all_ten_splits_are_kept_in_order(root: Path):
    dataset = wikipedia.read(root, "chameleon")
    assert dataset.train.shape == (10, 3)
    assert dataset.train.int().argmax(1).tolist() == [index % 3 for index in range(10)]


@pytest.mark.parametrize("row", ["3\t1,0\t0", "2\t1\t0", "2\t1,0", "2\t1,x\t0", "two\t1,0\t0"])
def test_a_faulty_node_names_its_line(root: Path, row: str):
    path = root / wikipedia.files("chameleon")[0]
    path.write_text(f"node_id\tfeature\tlabel\n0\t1,0\t2\n1\t0,1\t0\n{row}\n")
    with pytest.raises(DataError, match=r"out1_node_feature_label\.txt, line 4: found"):
        wikipedia.read(root, "chameleon")


def test_an_edge_out_of_range_names_its_line(root: Path):
    (root / wikipedia.files("chameleon")[1]).write_text("node_id\tnode_id\n0\t1\n1\t3\n")
    with pytest.raises(DataError, match="line 3: found 3; wanted a node from 0 to 2"):
        wikipedia.read(root, "chameleon")


def test_masks_of_another_length_are_a_fault(root: Path):
    path = root / wikipedia.files("chameleon")[4]
    np.savez(path, train_mask=np.ones(4), val_mask=np.ones(4), test_mask=np.ones(4))
    with pytest.raises(DataError, match=r"_2\.npz: wanted the arrays .* of 3 entries"):
        wikipedia.read(root, "chameleon")


def test_a_damaged_archive_is_a_data_error(root: Path):
    (root / wikipedia.files("chameleon")[3]).write_bytes(b"PK not really")
    with pytest.raises(DataError, match="wanted an npz archive"):
        wikipedia.read(root, "chameleon")
