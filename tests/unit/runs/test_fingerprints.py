"""An audit on other data than the run's is refused, and says what changed."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from audits.truth import Truth
from securefg.data.partition import Partition
from securefg.data.shard import load_shards, save_shards
from securefg.foundation.errors import RunFolderError
from securefg.runs import runner
from securefg.runs.assembly import Experiment, prepare
from securefg.runs.fingerprints import fingerprints_of, require_same_data, require_unchanged
from securefg.runs.folder import RunFolder
from securefg.settings.config import load_config, parse_config
from tests import small


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    config = small.config(tmp_path_factory.mktemp("prints"), "training.rounds=1", method="fedavg")
    return runner.start(config).folder


@pytest.fixture
def experiment(run: RunFolder) -> Experiment:
    return prepare(run.config())


def test_the_same_data_passes(run: RunFolder, experiment: Experiment) -> None:
    require_same_data(run, experiment)
    assert fingerprints_of(experiment) == fingerprints_of(prepare(run.config()))


def test_every_change_is_refused_by_its_name(run: RunFolder, experiment: Experiment) -> None:
    union, split = experiment.union, experiment.union.split
    shuffled = union.labels[torch.randperm(120, generator=torch.Generator().manual_seed(0))]
    edges = union.edge_index.clone()
    edges[1, 0] = (edges[1, 0] + 1) % 120
    features = union.features.clone()
    features[3, 3] += 1
    changes = {
        "labels": replace(union, labels=shuffled),
        "edges": replace(union, edge_index=edges),
        "features": replace(union, features=features),
        "split": replace(union, split=replace(split, train=split.test, test=split.train)),
    }
    for name, graph in changes.items():
        with pytest.raises(RunFolderError, match=f"changed since then: {name}$"):
            require_same_data(run, replace(experiment, union=graph))
        with pytest.raises(RunFolderError, match=f"begun with; changed since then: {name}$"):
            require_unchanged(run.path, replace(experiment, union=graph))


def test_swapped_shards_are_named(run: RunFolder, experiment: Experiment) -> None:
    first, second, third = experiment.shards
    swapped = (replace(second, client=0), replace(first, client=1), third)
    with pytest.raises(RunFolderError, match=r"shard of client 0, 1$"):
        require_same_data(run, replace(experiment, shards=swapped))


def test_another_partition_is_named(run: RunFolder, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    other = Partition.of("shares", 120, [torch.arange(60), torch.arange(70), torch.arange(80)])
    other.save(copy / "partition.safetensors")
    with pytest.raises(RunFolderError, match=r"changed since then: partition\.safetensors$"):
        Truth.of(RunFolder(copy))


def test_a_stored_shard_that_was_swapped_is_named(run: RunFolder, tmp_path: Path) -> None:
    copy = RunFolder(tmp_path / "copy")
    shutil.copytree(run.path, copy.path)
    own_shards = prepare(run.config()).shards
    copy.shards.mkdir(parents=True)
    save_shards(copy.shards / "client-0.safetensors", own_shards[:1])
    assert load_shards(copy.shards / "client-0.safetensors")
    Truth.of(copy)
    save_shards(copy.shards / "client-0.safetensors", (replace(own_shards[1], client=0),))
    with pytest.raises(RunFolderError, match=r"private/shards/client-0\.safetensors"):
        Truth.of(copy)


def test_fingerprints_that_were_written_over_are_refused(run: RunFolder, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    path = copy / "fingerprints.json"
    tree = json.loads(path.read_text())
    path.write_text(json.dumps(tree | {"labels": "0" * 16}))
    with pytest.raises(RunFolderError, match=r"fingerprints\.json was changed after the run"):
        Truth.of(RunFolder(copy))
    path.unlink()
    with pytest.raises(RunFolderError, match="each site audits its own part"):
        Truth.of(RunFolder(copy))


def test_data_folders_are_beside_their_config(tmp_path: Path) -> None:
    tree = {"method": {"name": "fedavg"}, "data": {"name": "folder", "folder": "table"}}
    (tmp_path / "own.yaml").write_text(json.dumps(tree))
    found = load_config(tmp_path / "own.yaml")
    assert found.data.folder == (tmp_path / "table").resolve()
    assert found.hash == parse_config(tree).hash
