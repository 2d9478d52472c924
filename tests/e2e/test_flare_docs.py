"""Every command of docs/flare.md's way to four banks, run as it stands there."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from securefg.run.folder import RunFolder

pytest.importorskip("nvflare")
HERE = Path.cwd()


def commands() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", Path("docs/flare.md").read_text(), re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.slow
def test_the_way_to_four_banks(tmp_path: Path) -> None:
    (tmp_path / "configs").symlink_to(HERE / "configs")
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    started: list[subprocess.Popen[bytes]] = []
    said: dict[str, str] = {}
    port = str(free_port())
    try:
        for line in commands():
            words = shlex.split(line.removesuffix("&").replace("8012", port))
            assert words[:2] == ["securefg", "deploy"]
            command = [sys.executable, "-m", "securefg.cli.main", *words[1:]]
            if line.endswith("&"):
                log = (tmp_path / "log").open("ab")
                started.append(
                    subprocess.Popen(
                        command,
                        cwd=tmp_path,
                        env=environment,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )
                log.close()
                continue
            done = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, (line, done.stdout, done.stderr)
            said[words[2]] = done.stdout
    finally:
        end(started)
    assert "the floor allows it" in said["review"]
    assert "wrong" not in said["check"]
    assert said["status"].count(": connected") == 4
    assert "Update.weights" in said["ledger"]
    folder = RunFolder(next((tmp_path / "fetched").iterdir()))
    assert folder.summary().rounds == 2
    assert (folder.path / "transcript").is_dir()
    assert not (folder.path / "private").exists()
    assert not (folder.path / "partition.safetensors").exists()


def end(started: list[subprocess.Popen[bytes]]) -> None:
    """The parties, and the jobs' processes that FLARE started below them."""
    import psutil

    below = [child for p in started for child in _children(psutil, p.pid)]
    for process in started:
        process.send_signal(signal.SIGKILL)
        process.wait()
    for child in below:
        if child.is_running():
            child.kill()


def _children(psutil: object, pid: int) -> list[object]:
    try:
        return list(psutil.Process(pid).children(recursive=True))  # type: ignore[attr-defined]
    except Exception:
        return []
