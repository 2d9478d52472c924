from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix, save_npz

from securefg.data.datasets import load
from securefg.data.readers import folder
from securefg.foundation.errors import ConfigError, DataError
from securefg.settings.data import DataSettings

GOOD = {
    "edges.csv": "source,target\n0,1\n1,2\n2,1\n3,3\n",
    "features.csv": "node,a,b\n2,0.5,1\n0,1,0\n1,0,1e-3\n3,2,2\n",
    "labels.csv": "node,label\n3,1\n0,0\n1,1\n2,0\n",
    "split.csv": "node,split\n0,train\n1,val\n3,test\n",
}


def lay(root: Path, **changed: str | None) -> Path:
    """The good folder, with some files changed (`labels="..."`) or left out (`labels=None`)."""
    contents = {**GOOD, **{f"{stem}.csv": text for stem, text in changed.items()}}
    for file, text in contents.items():
        if text is not None:
            (root / file).write_text(text)
    return root


def test_rows_are_put_in_the_order_of_the_nodes(tmp_path: Path):
    dataset = folder.read(lay(tmp_path))
    expected = torch.tensor([[1, 0], [0, 1e-3], [0.5, 1], [2, 2]])
    assert torch.equal(dataset.features, expected)
    assert dataset.labels.tolist() == [0, 1, 0, 1]
    assert dataset.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]


def test_the_folders_split_is_its_public_split(tmp_path: Path):
    graph = load(DataSettings(name="folder", folder=lay(tmp_path)), seed=0)
    assert graph.split.train.tolist() == [True, False, False, False]
    assert graph.split.val.tolist() == [False, True, False, False]
    assert graph.split.test.tolist() == [False, False, False, True]


def test_a_folder_without_a_split_asks_for_a_random_one(tmp_path: Path):
    settings = DataSettings(name="folder", folder=lay(tmp_path, split=None))
    with pytest.raises(ConfigError, match=r"data\.split\.kind: 'public'.*allowed: random"):
        load(settings, seed=0)


def test_files_without_headers_are_read_alike(tmp_path: Path):
    bare = {file: text.split("\n", 1)[1] for file, text in GOOD.items()}
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    for file, text in bare.items():
        (tmp_path / "without" / file).write_text(text)
    first, second = folder.read(lay(tmp_path / "with")), folder.read(tmp_path / "without")
    assert torch.equal(first.features, second.features)
    assert torch.equal(first.test, second.test)


@pytest.mark.parametrize("sparse", [False, True])
def test_npz_holds_the_same_as_csv(tmp_path: Path, sparse: bool):
    expected = folder.read(lay(tmp_path))
    for stem in ("edges", "features", "labels"):
        (tmp_path / f"{stem}.csv").unlink()
    x = expected.features.numpy()
    if sparse:
        save_npz(tmp_path / "features.npz", csr_matrix(x))
    else:
        np.savez(tmp_path / "features.npz", x=x)
    np.savez(tmp_path / "labels.npz", y=expected.labels.numpy())
    np.savez(tmp_path / "edges.npz", edge_index=np.array([[0, 1], [1, 2]]))
    found = folder.read(tmp_path)
    assert torch.equal(found.features, expected.features)
    assert torch.equal(found.labels, expected.labels)
    assert torch.equal(found.edge_index, expected.edge_index)


@pytest.mark.parametrize(
    ("changed", "line", "shown_value", "wanted"),
    [
        ({"edges": "0,1\nx,2\n"}, 2, "'x,2'", "2 integers"),
        ({"edges": "0,1\n1.5,2\n"}, 2, "'1.5,2'", "2 integers"),
        ({"edges": "0,1\n\n1,4\n"}, 3, "4", "a node from 0 to 3"),
        ({"edges": "0,1\n-1,2\n"}, 2, "-1", "a node from 0 to 3"),
        ({"edges": "0,1\n1,2,3\n"}, 2, "3 fields", "2 integers"),
        ({"edges": ""}, 1, "an empty file", "at least one row"),
        ({"edges": "source,target\n"}, 1, "a header", "at least one row"),
        ({"features": "node,a\n0,1\n1,nan\n"}, 3, "nan as feature 1", "finite"),
        ({"features": "node,a,b\n0,1,1\n1,2,inf\n"}, 3, "inf as feature 2", "finite"),
        ({"features": "0,1\n1,1e300\n"}, 2, "1e+300 as feature 1", "finite float32"),
        ({"features": "node,a,b\n0,1,2\n1,3\n"}, 3, "2 fields", "3 numbers"),
        ({"features": "0,1\n0.5,1\n"}, 2, "0.5", "an integer node id"),
        ({"features": "0,1\n1,2\n1,3\n2,4\n"}, 3, "node 1 a second time", "every node once"),
        ({"features": "0,1\n1,2\n7,3\n"}, 3, "7.0", "a node from 0 to 2"),
        ({"features": "0\n1\n"}, 1, "a node without a feature", "node,value"),
        ({"features": "0,1\n1,\n"}, 2, "'1,'", "2 numbers"),
        ({"labels": "0,0\n1,1\n3,0\n"}, 3, "no node 2", "every node from 0 to 3"),
        ({"labels": "0,0\n1,1\n2,\n3,0\n"}, 3, "'2,'", "2 integers"),
        ({"labels": "0,0\n1,1\n2,0\n3,0\n1,1\n"}, 5, "node 1 a second time", "every node once"),
        ({"labels": "0,0\n1,-2\n2,0\n3,0\n"}, 2, "-2", "a label from 0"),
        ({"labels": "0,0\n1,5\n2,0\n3,0\n"}, 2, "label 5 but never label 1", "without gaps"),
        ({"labels": "0,0\n1,1\n2,0\n3,0\n9,1\n"}, 5, "9", "a node from 0 to 3"),
        ({"split": "0,train\n1,testing\n"}, 2, "'1,testing'", "node,train"),
        ({"split": "0,train\n4,val\n"}, 2, "node '4'", "a node from 0 to 3"),
        ({"split": "zero,train\n"}, 1, "node 'zero'", "a node from 0 to 3"),
        ({"split": "0,train\n0,val\n"}, 2, "node 0 a second time", "at most once"),
    ],
)
def test_a_fault_names_file_line_found_and_wanted(
    tmp_path: Path, changed: dict[str, str], line: int, shown_value: str, wanted: str
):
    with pytest.raises(DataError) as caught:
        folder.read(lay(tmp_path, **changed))
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / next(iter(changed))}.csv, line {line}: found ")
    assert shown_value in message.partition("; wanted ")[0]
    assert wanted in message.partition("; wanted ")[2]


@pytest.mark.parametrize(
    ("stem", "arrays", "fault"),
    [
        ("features", {"x": np.array([[1.0], [np.nan]])}, "array x: found nan in row 2"),
        ("features", {"x": np.ones(3)}, r"array x: found shape \(3,\)"),
        ("features", {"z": np.ones(3)}, "found z; wanted x, or data, indices"),
        ("features", {"x": np.array([["a"]])}, "array x: found shape"),
        ("labels", {"y": np.array([0, 1, 0])}, r"array y: found shape \(3,\); wanted one label"),
        ("labels", {"y": np.array([0, 3, 0, 0])}, "array y: found labels 0 to 3; wanted"),
        ("labels", {"y": np.ones(4)}, "array y: found numbers of float64; wanted integers"),
        ("edges", {"edge_index": np.array([[0, 1], [1, 9]])}, "found node 9 in edge 2"),
        ("edges", {"edge_index": np.zeros((3, 2), int)}, r"found shape \(3, 2\); wanted \(2, E\)"),
        ("edges", {"pairs": np.zeros((2, 2), int)}, "found pairs; wanted edge_index"),
    ],
)
def test_a_fault_in_an_archive_names_file_and_array(
    tmp_path: Path, stem: str, arrays: dict[str, np.ndarray], fault: str
):
    np.savez(lay(tmp_path, **{stem: None}) / f"{stem}.npz", **arrays)
    with pytest.raises(DataError, match=rf"{stem}\.npz.*{fault}"):
        folder.read(tmp_path)


def test_csr_parts_that_do_not_fit_are_a_fault(tmp_path: Path):
    parts = {"data": [1.0], "indices": [7], "indptr": [0, 1, 1, 1, 1], "shape": [4, 2]}
    np.savez(lay(tmp_path, features=None) / "features.npz", **parts)
    with pytest.raises(DataError, match="wanted the parts of a CSR matrix"):
        folder.read(tmp_path)


def test_an_archive_with_pickled_objects_is_refused(tmp_path: Path):
    np.savez(lay(tmp_path, labels=None) / "labels.npz", y=np.array([{}, {}], dtype=object))
    with pytest.raises(DataError, match="wanted an npz archive of plain arrays"):
        folder.read(tmp_path)


def test_a_file_in_neither_form_or_in_both_is_a_fault(tmp_path: Path):
    lay(tmp_path, labels=None)
    with pytest.raises(DataError, match=r"found neither of labels\.csv and labels\.npz"):
        folder.read(tmp_path)
    lay(tmp_path)
    np.savez(tmp_path / "labels.npz", y=np.zeros(4, int))
    with pytest.raises(DataError, match=r"found both of labels\.csv and labels\.npz"):
        folder.read(tmp_path)


def test_a_folder_that_is_not_there_is_a_fault(tmp_path: Path):
    with pytest.raises(DataError, match="found no such folder"):
        folder.read(tmp_path / "nowhere")
