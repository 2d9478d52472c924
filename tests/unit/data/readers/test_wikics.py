from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from securefg.data.datasets import load
from securefg.data.readers import wikics
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
    path = root / wikics.files("wikics")[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return root


def test_links_become_undirected_edges_without_loops(tmp_path: Path):
    dataset = wikics.read(lay(tmp_path, content()), "wikics")
    pairs = [[0, 1], [0, 3], [1, 0], [1, 2], [2, 1], [3, 0]]
    assert dataset.edge_index.T.tolist() == pairs


def test_every_training_split_shares_the_test_set(tmp_path: Path):
    root = lay(tmp_path, content())
    for index in (0, 1):
        settings = DataSettings.model_validate(
            {"name": "Wiki-CS", "root": root, "split": {"index": index}}
        )
        graph = load(settings, seed=0)
        assert graph.split.train.tolist() == content()["train_masks"][index]
        assert graph.split.test.tolist() == content()["test_mask"]


def test_dense_word_vectors_are_left_as_they_are(tmp_path: Path):
    graph = load(DataSettings(name="wikics", root=lay(tmp_path, content())), seed=0)
    assert graph.features.tolist() == content()["features"]


def test_a_split_that_is_not_there_is_refused(tmp_path: Path):
    settings = DataSettings.model_validate(
        {"name": "wikics", "root": lay(tmp_path, content()), "split": {"index": 2}}
    )
    with pytest.raises(ConfigError, match=r"data\.split\.index: 2; allowed for wikics: 0 to 1"):
        load(settings, seed=0)


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        ("{not json", "wanted JSON"),
        ({}, "found no 'features'"),
        ({**content(), "features": [[1.0], [1.0, 2.0]]}, "wanted Wiki-CS's lists"),
        ({**content(), "links": [[7], [], [], []]}, "a link outside 0 to 3"),
        ({**content(), "links": [[]]}, "1 lists of links for 4 nodes"),
    ],
)
def test_a_faulty_file_is_a_data_error(tmp_path: Path, broken: Any, found: str):
    with pytest.raises(DataError, match=found) as caught:
        wikics.read(lay(tmp_path, broken), "wikics")
    assert "data.json" in str(caught.value)
