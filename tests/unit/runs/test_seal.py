"""What `securefg verify` says of a run whose data are not here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from securefg.cli.main import app
from securefg.runs import runner
from securefg.runs.seal import verify_run
from securefg.settings.config import parse_config


def test_verify_without_the_data_says_not_checked_and_ends_with_1(tmp_path: Path) -> None:
    folder, stream = tmp_path / "graph", np.random.default_rng(0)
    folder.mkdir()
    np.savez(folder / "features.npz", x=stream.normal(size=(60, 4)))
    np.savez(folder / "labels.npz", y=np.arange(60) % 2)
    np.savez(folder / "edges.npz", edge_index=stream.integers(0, 60, (2, 100)))
    tree = {
        "method": {"name": "fedavg"},
        "data": {"name": "folder", "folder": str(folder), "split": {"kind": "shares"}},
        "partition": {"name": "random", "num_clients": 3},
        "training": {"rounds": 2},
        "output": {"root": str(tmp_path / "runs")},
    }
    run = runner.start(parse_config(tree)).folder
    before = {check.name: check for check in verify_run(run)}
    assert before["data"].is_met
    assert before["epsilon"].is_met

    folder.rename(tmp_path / "elsewhere")
    after = {check.name: check for check in verify_run(run)}
    assert not any(after[name].is_met or after[name].wrong for name in ("data", "epsilon"))
    assert after["transcript"].is_met
    done = CliRunner().invoke(app, ["verify", str(run.path)])
    assert done.exit_code == 1
    lines = [line for line in done.stdout.splitlines() if "not checked" in line]
    assert [line.split()[0] for line in lines] == ["data", "epsilon"]
