"""One step of all clients at once is what the engine does with I = 1."""

from __future__ import annotations

from pathlib import Path

import pytest

from papers.gfl_batch import finish, fits, run_single_steps
from securefg.runs import runner
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


@pytest.mark.parametrize("task", TASKS)
def test_a_run_agrees_with_the_engine(task: str, tmp_path: Path) -> None:
    chosen = single(tmp_path, *TASKS[task])
    summary = runner.start(chosen).summary
    assert summary is not None
    found = finish(chosen)
    assert found.val_loss == pytest.approx(summary.val_loss, abs=1e-5)
    assert found.test_accuracy == pytest.approx(summary.test_accuracy, abs=1e-6)


def test_only_runs_with_one_step_and_no_noise_fit(tmp_path: Path) -> None:
    several = single(tmp_path, "training.local_epochs=2")
    noisy = single(tmp_path, "method.jacobian_noise=1")
    decayed = single(tmp_path, "training.weight_decay=0.1")
    assert not any(map(fits, (several, noisy, decayed)))
    assert run_single_steps([several, noisy, decayed]) == {}
