from __future__ import annotations

from pathlib import Path

import pytest
import torch

from securefg.data.datasets import load, normalize_rows
from securefg.foundation.errors import ConfigError
from securefg.settings.data import DataSettings


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An ACM of ten nodes in two classes."""
    raw = tmp_path / "ACM" / "raw"
    raw.mkdir(parents=True)
    (raw / "acm.txt").write_text("1 3\n0 0\n" * 5)
    (raw / "acm_label.txt").write_text("0\r\n1\r\n" * 5)
    (raw / "acm_graph.txt").write_text("0 1\r\n1 2\r\n")
    return tmp_path


def settings(root: Path, **given) -> DataSettings:
    split = {"kind": "random", "labels_per_class": 1, "num_val": 2, "num_test": 3}
    return DataSettings.model_validate({"name": "ACM", "root": root, "split": split, **given})


def test_rows_are_divided_by_their_l1_norm_and_zeros_stay():
    rows = normalize_rows(torch.tensor([[1.0, -3.0], [0.0, 0.0]]))
    assert rows.tolist() == [[0.25, -0.75], [0, 0]]
    unit = normalize_rows(torch.tensor([[3.0, -4.0]]), "l2")
    assert torch.allclose(unit, torch.tensor([[0.6, -0.8]]))


@pytest.mark.parametrize(
    ("asked", "first"), [(None, [0.25, 0.75]), ("l1", [0.25, 0.75]), ("none", [1, 3])]
)
def test_features_are_scaled_as_asked_or_as_usual(root: Path, asked: str | None, first):
    graph = load(settings(root, normalize_features=asked), seed=0)
    assert graph.features[0].tolist() == first


def test_a_loaded_graph_is_the_same_from_the_raw_files_and_from_the_cache(root: Path):
    first, second = (load(settings(root), seed=0) for _ in range(2))
    assert first.name == second.name == "acm"
    for name in ("features", "edge_index", "labels"):
        assert torch.equal(getattr(first, name), getattr(second, name))
    assert torch.equal(first.split.train, second.split.train)


def test_the_data_root_is_only_read(root: Path):
    before = sorted(root.rglob("*"))
    load(settings(root), seed=0)
    assert sorted(root.rglob("*")) == before


def test_a_split_larger_than_the_dataset_is_refused(root: Path):
    with pytest.raises(ConfigError, match=r"num_val 500 \+ num_test 1000 = 1500"):
        load(settings(root, split={"kind": "public"}), seed=0)
