"""Ctrl-C ends a run after its round, says how to resume it, and the resumed run is the same."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import yaml

from tests.small import tree


def start(config: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "securefg.cli.main", "run", str(config), *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )


def test_ctrl_c_leaves_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    settings = tree(tmp_path / "runs")
    settings["training"]["rounds"] = 2000
    config = tmp_path / "long.yaml"
    config.write_text(yaml.safe_dump(settings))
    run = start(config)
    assert run.stdout is not None
    while run.poll() is None and not any((tmp_path / "runs").glob("long-*/metrics.jsonl")):
        time.sleep(0.05)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=600)
    assert run.returncode == 130, out + err
    (folder,) = (tmp_path / "runs").glob("long-*")
    assert f"securefg run --resume {folder}" in err
    assert "Traceback" not in err
    assert list((folder / "checkpoints").glob("round-*"))
