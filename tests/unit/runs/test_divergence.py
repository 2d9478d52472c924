"""Training that goes out of hand ends a run as a result: round, whose number, and what to try."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
import torch
import yaml
from typer.testing import CliRunner

from securefg.cli.main import app
from securefg.federation.evaluation import LocalScore, Scores, pool_scores
from securefg.foundation.errors import Diverged
from securefg.reports import build_report
from securefg.runs import runner
from securefg.runs.divergence import DIVERGED, require_finite_losses
from securefg.runs.summary import ABORTED
from tests.small import config, tree

WILD = ("training.lr=1e30", "training.rounds=6")


@pytest.mark.parametrize("method", ["fedgl", "fedavg"])
def test_a_rate_that_is_too_high_ends_the_run_as_a_result(method: str, tmp_path: Path) -> None:
    outcome = runner.start(config(tmp_path, *WILD, method=method))
    summary = outcome.summary
    assert summary is not None
    assert summary.stopped.startswith(f"{DIVERGED}round ")
    assert "is not finite; try a smaller training.lr" in summary.stopped
    assert summary.rounds < 6
    json.loads((outcome.folder.path / "summary.json").read_text())
    assert build_report(outcome.folder).is_file()


HIDDEN = {
    "masked": "{secure_aggregation: {}}",
    "noised": "{mechanism: local_gaussian, noise_multiplier: 1.0, clip_l2: 1.0, delta: 1.0e-5}",
}


@pytest.mark.parametrize("privacy", HIDDEN.values(), ids=HIDDEN)
def test_run_diverging_under_masks_or_noise_names_no_client(privacy: str, tmp_path: Path) -> None:
    """Whose upload is not finite would be told before noise and masks."""
    equal = "method={name: fedavg, weighting: equal}"
    outcome = runner.start(config(tmp_path, *WILD, f"privacy={privacy}", equal))
    assert outcome.summary is not None
    assert "client" not in outcome.summary.stopped
    assert outcome.summary.dropped == 0


@pytest.mark.parametrize("engine", ["inprocess", "processes"])
def test_features_too_large_name_the_client(engine: str, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    rng = torch.Generator().manual_seed(0)
    ends = torch.randint(0, 60, (2, 200), generator=rng)
    edges = ["source,target", *(f"{a},{b}" for a, b in ends.T.tolist())]
    (folder / "edges.csv").write_text("\n".join(edges))
    (folder / "features.csv").write_text("\n".join(f"{n},3e38,-3e38,{n}" for n in range(60)))
    (folder / "labels.csv").write_text("\n".join(f"{n},{n % 3}" for n in range(60)))
    split = "{kind: random, labels_per_class: 5, num_val: 10, num_test: 10}"
    data = f"data={{name: folder, folder: {folder}, normalize_features: none, split: {split}}}"
    outcome = runner.start(config(tmp_path / "runs", data, f"engine.name={engine}"))
    assert outcome.summary is not None
    assert outcome.summary.stopped.startswith(f"{DIVERGED}round 1: client 0's ")


def local(client: int, train_loss: float) -> LocalScore:
    return LocalScore(client, train_loss, 0.5, 1, 2, 1, 2)


def test_the_loss_that_is_not_finite_is_named() -> None:
    scores = [local(0, 0.1), local(1, math.nan)]
    with pytest.raises(Diverged, match=r"round 3: client 1's train loss is not finite"):
        require_finite_losses(3, pool_scores(scores), scores)
    with pytest.raises(Diverged, match="round 2: the val loss is not finite"):
        require_finite_losses(2, Scores(0.1, math.inf, 0.5, 0.5), ())


def test_where_every_round_aborts_the_run_ends_and_resumes(tmp_path: Path) -> None:
    """No score was ever had: minus infinity does not get into any file."""
    import shutil

    from tests.unit.runs.interrupted import StopAfter

    lost = config(
        tmp_path,
        "privacy={secure_aggregation: {on_abort: skip}}",
        "method={name: tests.unit.runs.absent}",
    )
    folder = runner.start(lost, StopAfter(2)).folder
    assert (folder.checkpoints / "round-000002" / "state.json").is_file()
    copied = tmp_path / "copy" / folder.path.name
    shutil.copytree(folder.path, copied)
    summary = runner.resume(folder).summary
    assert summary is not None
    assert summary.aborted_rounds == summary.rounds == 4
    assert summary.test_accuracy is None
    assert summary.stopped.startswith(f"{ABORTED}secure aggregation: ")
    page = build_report(folder).read_text()
    assert "No round was finished, so there is no model to score." in page
    assert "Accuracy by round" not in page
    assert "Bytes sent by round" in page


def test_run_whose_every_round_aborts_exits_with_code_1(tmp_path: Path) -> None:
    lost = tree(tmp_path / "runs", "tests.unit.runs.absent")
    lost["privacy"] = {"secure_aggregation": {"on_abort": "skip"}}
    (tmp_path / "lost.yaml").write_text(yaml.safe_dump(lost))
    completed = CliRunner().invoke(app, ["run", str(tmp_path / "lost.yaml")])
    assert completed.exit_code == 1
    assert "every round was aborted: secure aggregation: " in completed.output
    assert re.search(r"test accuracy +none", completed.output)
    assert not re.search(r"(test|val|loss) 0\.", completed.output)
