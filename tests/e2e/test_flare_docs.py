"""Every command of docs/howto/flare.md's way to four banks, run as it stands there."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from securefg.cli.main import app
from securefg.flare.admin import ADMIN
from securefg.flare.guard.doors import RESULT
from securefg.flare.local import free_port
from securefg.runs.folder import RunFolder
from tests.e2e.test_flare_doors import OPEN, OPEN_TO_ALL

pytest.importorskip("nvflare")
HERE = Path.cwd()
OVER_THE_NETWORK = {"rehearse", "submit", "status", "fetch"}  # in processes: sessions leave threads


def commands() -> list[str]:
    blocks = re.findall(
        r"```console\n(.*?)```", (HERE / "docs/howto/flare.md").read_text(), re.DOTALL
    )
    return [line for block in blocks for line in block.splitlines()]


def said_by(words: list[str], environment: dict[str, str]) -> str:
    """What a command prints; it must end well. Where it can it runs here: torch is loaded once."""
    if words[2] in OVER_THE_NETWORK:
        done = subprocess.run(
            [sys.executable, "-m", "securefg.cli.main", *words[1:]],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout
    result = CliRunner().invoke(app, words[1:])
    assert result.exit_code == 0, (words, result.output, result.exception)
    return result.output


@pytest.mark.slow
def test_the_way_to_four_banks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").symlink_to(HERE / "configs")
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    started: list[subprocess.Popen[bytes]] = []
    printed_by_command: dict[str, str] = {}
    port = str(free_port())
    try:
        for line in commands():
            words = shlex.split(line.removesuffix("&").replace("8012", port))
            assert words[:2] == ["securefg", "deploy"]
            if line.endswith("&"):
                command = [sys.executable, "-m", "securefg.cli.main", *words[1:]]
                with Path("log").open("ab") as log:
                    started.append(
                        subprocess.Popen(
                            command, env=environment, stdout=log, stderr=log, start_new_session=True
                        )
                    )
            else:
                printed_by_command[words[2]] = said_by(words, environment)
    finally:
        end(started)
    assert "the floor allows it" in printed_by_command["review"]
    assert "wrong" not in printed_by_command["check"]
    assert printed_by_command["status"].count(": connected") == 4
    assert "Update.weights" in printed_by_command["ledger"]
    doors = json.loads(Path("kits/localhost/doors.server.json").read_text())
    # Fetching opens one more door at the server than the scan of `test_flare_doors.py` finds.
    assert set(doors["open"]) == OPEN["server"] | {"/".join(RESULT)}
    at_admin = json.loads(Path(f"kits/{ADMIN}/doors.admin.json").read_text())
    assert set(at_admin["open"]) == {"hci_channel/SESSION_EXPIRED", *OPEN_TO_ALL}
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
