"""Ctrl-C ends a run after its round, says how to resume it, and the resumed run is the same."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import yaml

from tests.forks import command, ended, in_a_fork
from tests.small import tree


def test_ctrl_c_leaves_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    settings = tree(tmp_path / "runs")
    settings["training"]["rounds"] = 2000
    config, log = tmp_path / "long.yaml", tmp_path / "log"
    config.write_text(yaml.safe_dump(settings))
    run = in_a_fork(command(log, "run", str(config)))
    while not any((tmp_path / "runs").glob("long-*/metrics.jsonl")):
        assert os.waitpid(run, os.WNOHANG) == (0, 0), log.read_text()
        time.sleep(0.05)
    os.kill(run, signal.SIGINT)
    code, printed_text = ended(run), log.read_text()
    assert code == 130, printed_text
    (folder,) = (tmp_path / "runs").glob("long-*")
    assert f"securefg run --resume {folder}" in printed_text
    assert "Traceback" not in printed_text
    assert list((folder / "checkpoints").glob("round-*"))
