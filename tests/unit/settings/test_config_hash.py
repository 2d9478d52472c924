"""The config's hash tells runs apart by what can change their results, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefg.settings.config import parse_config
from tests.small import config, tree


def test_a_default_written_out_is_the_same_run(tmp_path: Path) -> None:
    assert config(tmp_path).hash == config(tmp_path, "method.alpha=0.2", "device=auto").hash
    dumped = config(tmp_path).model_dump(mode="json")
    assert parse_config(dumped).hash == config(tmp_path).hash


@pytest.mark.parametrize(
    "change",
    [
        "seed=1",
        "method.alpha=0.3",
        "training.rounds=5",
        "engine.threads=2",
        "partition={name: one_node}",
        "privacy={mechanism: local_gaussian, noise_multiplier: 1}",
        "privacy={secure_aggregation: {}}",
        "audit={canaries: 4}",
        "centralised=true",
        "data.csbm.num_nodes=121",
    ],
)
def test_what_can_change_the_result_changes_the_hash(tmp_path: Path, change: str) -> None:
    assert config(tmp_path, change).hash != config(tmp_path).hash


def test_methods_and_partitions_with_all_defaults_are_told_apart(tmp_path: Path) -> None:
    hashes = {
        parse_config({**tree(tmp_path, method), "partition": {"name": name}}).hash
        for method in ("fedgl", "nfedgnn", "alone")
        for name in ("shares", "one_node", "louvain")
    }
    assert len(hashes) == 9


@pytest.mark.parametrize("change", ["name=other", "engine.name=processes", "output.root=elsewhere"])
def test_names_places_and_engines_do_not(tmp_path: Path, change: str) -> None:
    assert config(tmp_path, change).hash == config(tmp_path).hash
