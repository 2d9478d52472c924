from __future__ import annotations

import hashlib
import json
import os
import pickle
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from securefg.data.datasets import load
from securefg.data.readers import geometric
from securefg.foundation.errors import ConfigError, DataError
from securefg.settings.data import DataSettings


def content() -> dict[str, Any]:
    """Four nodes and two training splits, with every key of the published file."""
    return {
        "features": [[0.5, -1.0], [1.0, 0.0], [0.0, 2.0], [0.25, 0.25]],
        "labels": [0, 1, 1, 0],
        "links": [[1, 0], [0, 2], [], [0]],
        "train_masks": [[True, False, False, False], [False, True, False, False]],
        "val_masks": [[False, True, False, False], [True, False, False, False]],
        "stopping_masks": [[False] * 4] * 2,
        "test_mask": [False, False, True, True],
    }


def lay(root: Path, value: Any) -> Path:
    path = root / geometric.files("wikics")[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return root


def test_read_wikics_links_are_undirected_without_loops(tmp_path: Path):
    dataset = geometric.read(lay(tmp_path, content()), "wikics")
    pairs = [[0, 1], [0, 3], [1, 0], [1, 2], [2, 1], [3, 0]]
    assert dataset.edge_index.T.tolist() == pairs


def test_read_wikics_splits_share_the_test_set(tmp_path: Path):
    root = lay(tmp_path, content())
    for index in (0, 1):
        settings = DataSettings.model_validate(
            {"name": "Wiki-CS", "root": root, "split": {"index": index}}
        )
        graph = load(settings, seed=0)
        assert graph.split.train.tolist() == content()["train_masks"][index]
        assert graph.split.test.tolist() == content()["test_mask"]


def test_load_wikics_features_are_unscaled(tmp_path: Path):
    graph = load(DataSettings(name="wikics", root=lay(tmp_path, content())), seed=0)
    assert graph.features.tolist() == content()["features"]


def test_load_wikics_unknown_split_is_refused(tmp_path: Path):
    settings = DataSettings.model_validate(
        {"name": "wikics", "root": lay(tmp_path, content()), "split": {"index": 2}}
    )
    with pytest.raises(ConfigError, match=r"data\.split\.index: 2; allowed for wikics: 0 to 1"):
        load(settings, seed=0)


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        ("{not json", "JSONDecodeError"),
        ("[" * 100_000, "RecursionError"),
        ({}, "KeyError 'features'"),
        ({**content(), "features": [[1.0], [1.0, 2.0]]}, "expected the published wikics"),
        ({**content(), "links": [[7], [], [], []]}, "an edge to a node outside 0 to 3"),
        ({**content(), "links": [[]] * 5 + [[0]]}, "an edge to a node outside 0 to 3"),
    ],
)
def test_read_faulty_wikics_file_is_a_data_error(tmp_path: Path, broken: Any, found: str):
    with pytest.raises(DataError, match=found) as caught:
        geometric.read(lay(tmp_path, broken), "wikics")
    assert "data.json" in str(caught.value)


class Harmful:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.target),)


def lay_files(root: Path, contents: dict[str, bytes]) -> None:
    for file, data in contents.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(data)


@pytest.fixture
def citeseer(tmp_path: Path) -> Path:
    """510 known nodes, of which 4 train; the test nodes are 513, 510 and 511: 512 is left out."""
    known = np.eye(510, 6, dtype=np.float32)
    one_hot = np.eye(3, dtype=np.int32)
    parts = {
        "x": csr_matrix(known[:4]),
        "y": one_hot[[0, 1, 2, 0]],
        "allx": csr_matrix(known),
        "ally": one_hot[np.arange(510) % 3],
        "tx": csr_matrix(np.full((3, 6), [[1], [2], [3]], np.float32)),
        "ty": one_hot[[2, 1, 2]],
        "graph": defaultdict(list, {0: [1, 1, 0], 1: [0], 510: [2], 512: []}),
    }
    stem = "Planetoid/CiteSeer/raw/ind.citeseer"
    pickled = {f"{stem}.{part}": pickle.dumps(value) for part, value in parts.items()}
    lay_files(tmp_path, {**pickled, f"{stem}.test.index": b"513\n510\n511\n"})
    return tmp_path


def trust(monkeypatch: pytest.MonkeyPatch, root: Path, name: str) -> None:
    """Take the files below `root` for the published ones."""
    digests = {
        file: hashlib.sha256((root / file).read_bytes()).hexdigest()
        for file in geometric.files(name)
    }
    monkeypatch.setattr(geometric, "published_digests", lambda: digests)


def test_read_citeseer_missing_test_node_is_a_zero_row(
    citeseer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(monkeypatch, citeseer, "citeseer")
    dataset = geometric.read(citeseer, "citeseer")
    assert dataset.features[510:, 0].tolist() == [2, 3, 0, 1]
    assert dataset.labels[510:].tolist() == [1, 2, 0, 2]
    assert dataset.train[0].nonzero().flatten().tolist() == [0, 1, 2, 3]
    assert dataset.val[0].nonzero().flatten().tolist() == list(range(4, 504))
    assert dataset.test[0].nonzero().flatten().tolist() == [510, 511, 513]
    assert dataset.edge_index.T.tolist() == [[0, 1], [1, 0], [2, 510], [510, 2]]
    assert (dataset.features.dtype, dataset.labels.dtype) == (torch.float32, torch.int64)
    assert sorted(path.name for path in citeseer.rglob("*") if path.is_dir()) == [
        "CiteSeer",
        "Planetoid",
        "raw",
    ]


def test_read_chameleon_edges_stay_directed_with_ten_splits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / file for file in geometric.files("chameleon")]
    files[0].parent.mkdir(parents=True)
    for index, path in enumerate(sorted(file for file in files if file.suffix == ".npz")):
        chosen = np.arange(3) == index % 3
        np.savez(path, train_mask=chosen, val_mask=~chosen, test_mask=np.zeros(3, np.uint8))
    nodes = "node_id\tfeature\tlabel\n0\t1,0\t2\n1\t0,1\t0\n2\t1,1\t1\n"
    (files[0].parent / "out1_node_feature_label.txt").write_text(nodes)
    (files[0].parent / "out1_graph_edges.txt").write_text("node_id\tnode_id\n2\t0\n0\t1\n1\t1\n")
    trust(monkeypatch, tmp_path, "chameleon")
    dataset = geometric.read(tmp_path, "chameleon")
    assert dataset.directed
    assert dataset.edge_index.T.tolist() == [[0, 1], [2, 0]]
    assert dataset.features.tolist() == [[1, 0], [0, 1], [1, 1]]
    assert dataset.train.int().argmax(1).tolist() == [index % 3 for index in range(10)]
    assert not dataset.test.any()


def test_read_unpublished_pickle_is_refused_before_it_runs(citeseer: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    for file in geometric.files("citeseer"):
        (citeseer / file).write_bytes(pickle.dumps(Harmful(made)))
    with pytest.raises(DataError, match=r"allx: found SHA-256 \w+\.{3}; expected 2ac30345d95c9ec9"):
        geometric.read(citeseer, "citeseer")
    assert not made.exists()


@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed", "chameleon", "squirrel"])
def test_files_all_have_a_published_digest(name: str) -> None:
    files = geometric.files(name)
    digests = geometric.published_digests()
    assert len(files) == (12 if name in ("chameleon", "squirrel") else 8)
    assert all(len(bytes.fromhex(digests[file])) == 32 for file in files)


def test_download_does_not_unpickle_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch_geometric.datasets import Planetoid

    made = tmp_path / "made"

    def fake(self: Planetoid) -> None:
        for name in self.raw_file_names:
            Path(self.raw_dir, name).write_bytes(pickle.dumps(Harmful(made)))

    monkeypatch.setattr(Planetoid, "download", fake)
    geometric.download("cora", tmp_path / "raw")
    assert all((tmp_path / "raw" / file).is_file() for file in geometric.files("cora"))
    assert not made.exists()


def test_import_of_datasets_leaves_torch_geometric_out() -> None:
    import subprocess

    code = "import sys, securefg.data.datasets; sys.exit('torch_geometric' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
