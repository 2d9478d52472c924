"""Mutated configs, overrides, tables and archives: an answer, never a traceback."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.sparse import csr_matrix, save_npz

from securefg.data.readers import folder
from securefg.foundation.errors import DataError
from securefg.settings.config import load_config, parse_config
from tests.fuzz.mutations import answered, many, mutated
from tests.small import tree

SETS = (
    "training.rounds=3",
    "privacy={mechanism: local_gaussian, noise_multiplier: 1}",
    "partition.shares=[0.5, 0.5]",
    "privacy.field_rules.Update.weights={mechanism: plain}",
    "data={name: csbm}",
)


@many(80, 20_000)
def test_configs(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes(mutated(yaml.safe_dump(tree(tmp_path)).encode(), seed))
    with answered(tmp_path):
        load_config(path)


@many(80, 15_000)
def test_overrides(tmp_path: Path, seed: int) -> None:
    text = SETS[seed % len(SETS)]
    with answered(tmp_path):
        parse_config(tree(tmp_path), [mutated(text.encode(), seed).decode(errors="replace")])


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("tables")
    features = rng.random((20, 4))
    np.savez_compressed(path / "labels.npz", y=np.arange(20) % 3)
    np.savez(path / "edges.npz", edge_index=rng.integers(0, 20, (2, 40)))
    save_npz(path / "features.npz", csr_matrix(np.round(features)))
    rows = ("\n".join(f"{i}," + ",".join(map(str, row)) for i, row in enumerate(features))).encode()
    return {
        "features.csv": rows,
        "labels.csv": "\n".join(f"{i},{i % 3}" for i in range(20)).encode(),
        "edges.csv": "\n".join(f"{i},{(i * 7) % 20}" for i in range(20)).encode(),
        "split.csv": "\n".join(f"{i},train" for i in range(20)).encode(),
        **{file.name: file.read_bytes() for file in path.iterdir()},
    }


@many(80, 15_000)
def test_tables(tables: dict[str, bytes], tmp_path: Path, seed: int) -> None:
    draws = random.Random(seed)
    stems = ("features", "labels", "edges")
    chosen = {stem: f"{stem}.{draws.choice(('csv', 'npz'))}" for stem in stems}
    spoilt = draws.choice([*chosen.values(), "split.csv"])
    for old in tmp_path.iterdir():
        old.unlink()
    for name in (*chosen.values(), "split.csv"):
        data = tables[name]
        (tmp_path / name).write_bytes(mutated(data, seed) if name == spoilt else data)
    with answered(tmp_path):
        folder.read(tmp_path)


def test_a_fault_of_a_table_is_a_data_error(tmp_path: Path) -> None:
    """What the other tests take for an answer is one that a user gets."""
    with pytest.raises(DataError):
        folder.read(tmp_path)


@pytest.mark.parametrize(
    "act",
    [
        lambda folder: (folder.parent / "x").write_text(""),
        lambda folder: (folder / ".." / "x").write_text(""),
        lambda folder: (folder / "link" / "x").write_text(""),
        lambda folder: (folder / "y").rename(folder.parent / "x"),
        lambda folder: (folder.parent / "z").mkdir(),
        lambda folder: os.system("true"),
    ],
    ids=["beside", "above", "through a link", "moved", "made", "run"],
)
def test_what_is_touched_outside_is_seen(act: Callable[[Path], object], tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "y").write_text("")
    (folder / "link").symlink_to(tmp_path)
    with pytest.raises(AssertionError), answered(folder):
        act(folder)
    with answered(folder):
        (folder / "inside").write_text("")
