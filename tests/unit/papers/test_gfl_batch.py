"""GFL-APPNP without messages is what the engine does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from papers.gfl_batch import LocalSteps, finish, fits, run_together
from securefg.runs import runner
from securefg.runs.assembly import prepare
from securefg.settings.config import RunConfig
from tests.small import config

TASKS = {
    "dnc": ("data.csbm={task: dnc, num_nodes: 60, degree: 8, num_features: 12}",),
    "snc by samples": (
        "data.csbm={task: snc, num_nodes: 60, num_features: 12, samples_per_node: 6}",
        "method.scored=samples",
    ),
    "snc by nodes": (
        "data.csbm={task: snc, num_nodes: 60, num_features: 12, samples_per_node: 6}",
    ),
    "sc": (
        "data.csbm={task: sc, num_nodes: 30, num_features: 12, samples_per_node: 24}",
        "method.batch_size=2",
    ),
}


def single(root: Path, *overrides: str) -> RunConfig:
    fixed = ("partition={name: one_node}", "training.weight_decay=0", "training.lr=0.5")
    common = ("training.local_epochs=1", "training.rounds=20", "training.monitor=val_loss")
    return config(root, *fixed, *common, *overrides, method="gfl_appnp")


def check_against_engine(chosen: RunConfig) -> None:
    summary = runner.start(chosen).summary
    assert summary is not None
    found = finish(chosen)
    assert found.val_loss == pytest.approx(summary.val_loss, abs=1e-5)
    assert found.test_accuracy == pytest.approx(summary.test_accuracy, abs=1e-6)


@pytest.mark.parametrize("task", TASKS)
def test_single_step_agrees_with_engine(task: str, tmp_path: Path) -> None:
    check_against_engine(single(tmp_path, *TASKS[task]))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("variant", [(), ("method.jacobian=none",), ("method.jacobian_noise=1",)])
def test_local_steps_agree_with_engine(task: str, variant: tuple[str, ...], tmp_path: Path) -> None:
    several = ("training.local_epochs=3", "training.lr=0.2")
    check_against_engine(single(tmp_path, *TASKS[task], *variant, *several))


def test_rotated_features_agree_with_engine(tmp_path: Path) -> None:
    wide = "data.csbm={task: dnc, num_nodes: 60, degree: 8, num_features: 90}"
    chosen = single(tmp_path, wide, "training.local_epochs=3")
    assert LocalSteps(prepare(chosen)).num_columns == 60
    check_against_engine(chosen)


def test_noise_in_rotated_space_has_engines_covariance(tmp_path: Path) -> None:
    narrow, wide = (
        LocalSteps(prepare(single(tmp_path, f"data.csbm={{task: dnc, num_nodes: 60, {words}}}")))
        for words in ("degree: 8, num_features: 12", "degree: 8, num_features: 90")
    )
    assert wide.mixing.shape[1] < narrow.mixing.shape[1] == 60
    assert torch.allclose(wide.mixing @ wide.mixing.T, narrow.mixing @ narrow.mixing.T, atol=1e-6)


def test_runs_with_decay_or_part_of_clients_do_not_fit(tmp_path: Path) -> None:
    decayed = single(tmp_path, "training.weight_decay=0.1")
    some = single(tmp_path, "training.participation=0.5")
    assert not any(map(fits, (decayed, some)))
    assert run_together([decayed, some]) == {}
