"""A run that crashed between checkpoints resumes to the same weights, bytes and epsilon."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefg.runs import runner
from securefg.runs.folder import RunFolder
from securefg.runs.observing import RoundReport, Silent
from tests.small import config

SEEDED = "mechanism: distributed_discrete, noise_multiplier: 1, noise_rng: seeded"


class CrashAfterFive(Silent):
    def round_done(self, report: RoundReport) -> None:
        if report.round == 5:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    "overrides",
    [
        ["privacy.secure_aggregation={}"],
        ["method={name: nfedgnn}", "partition={name: one_node}", "engine.hosts=3"],
        [f"privacy={{{SEEDED}, secure_aggregation: {{}}}}", "method.weighting=equal"],
    ],
    ids=["masked", "batched hosts", "masked with seeded noise"],
)
def test_a_crash_between_checkpoints_changes_nothing(overrides: list[str], tmp_path: Path) -> None:
    rounds = ["training.rounds=7", "output.checkpoint_every=2"]
    whole = runner.start(config(tmp_path / "whole", *overrides, *rounds))
    with pytest.raises(KeyboardInterrupt):
        runner.start(config(tmp_path / "broken", *overrides, *rounds), CrashAfterFive())
    (path,) = (tmp_path / "broken").glob("run-*")
    resumed = runner.resume(RunFolder.open(path))
    assert whole.summary is not None
    assert resumed.summary is not None
    models = [run.folder.path / "model.safetensors" for run in (whole, resumed)]
    assert models[0].read_bytes() == models[1].read_bytes()
    for key in ("epsilon", "test_accuracy", "rounds"):
        assert getattr(resumed.summary, key) == getattr(whole.summary, key)
    if "secure_aggregation" in overrides[0]:  # keys are lost with the processes, and made anew
        assert resumed.summary.bytes != whole.summary.bytes
    else:
        assert resumed.summary.bytes == whole.summary.bytes
    assert resumed.summary.attempts == 2
