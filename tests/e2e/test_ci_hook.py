"""The command of the pre-commit example, on a recorded exchange that leaks."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

import securefg
from securefg.cli.main import app

HOOK = yaml.safe_load(Path("examples/ci/pre-commit-config.yaml").read_text())["repos"][0]["hooks"][
    0
]


def record_exchange(folder: Path) -> None:
    """Record one step of softmax regression by twelve clients with a sample each."""
    rng = np.random.default_rng(0)
    model = {"weight": np.zeros((3, 20)), "bias": np.zeros(3)}
    data = {k: ((rng.random((1, 20)) < 0.3) * 1.0, rng.integers(3, size=1)) for k in range(12)}
    with securefg.record(folder, optimizer="sgd", lr=0.1, classes=3) as recording:
        recording.send(1, model, clients=data)
        for client, (x, y) in data.items():
            error = np.full((1, 3), 1 / 3) - np.eye(3)[y]
            change = {"weight": error.T @ x, "bias": error.sum(0)}
            recording.upload(client, 1, {k: model[k] - 0.1 * change[k] for k in model})
        recording.truth({k: x for k, (x, _) in data.items()}, {k: y for k, (_, y) in data.items()})


def test_ci_hook_on_a_leaking_exchange_fails_and_lists_it_in_sarif(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    record_exchange(tmp_path / "exchange")
    words = shlex.split(HOOK["entry"])
    assert words[0] == "securefg"
    done = CliRunner().invoke(app, words[1:])
    assert done.exit_code == 1, done.output
    assert "NOT PRIVATE" in done.output
    done = CliRunner().invoke(app, ["audit", "exchange", "--format", "sarif"])
    (run,) = json.loads(done.stdout)["runs"]
    assert any(one["level"] == "error" for one in run["results"])
