"""The documented commands run on four banks' tables: 7 columns, 93:7 classes, 4 banks."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from securefg.flare.local import free_port

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```console\n(cp examples/banks.*?)```", re.S)
FEW = ["--customers", "500", "--rings", "6"]
SHORT = ["--set", "training.rounds=4"]


def documented() -> list[list[str]]:
    (block,) = BLOCK.findall((ROOT / "docs/howto/audit.md").read_text())
    return [shlex.split(line) for line in block.splitlines()]


def carried_out(words: list[str], folder: Path) -> str:
    """A line of the page, on fewer customers and for fewer rounds."""
    if words[0] == "cp":
        for path in (ROOT / "examples/banks").glob("*.yaml"):
            shutil.copy(path, folder)
        config = folder / "banks.yaml"
        config.write_text(config.read_text().replace("rounds: 40", "rounds: 4"))
        return ""
    if words[0] == "python":
        command = [sys.executable, str(ROOT / words[1]), *words[2:], *FEW]
    else:
        runs = [str(path) for path in folder.glob("runs/banks-s0-*")]
        own = [one for word in words[1:] for one in (runs[:1] if "*" in word else [word])]
        command = [sys.executable, "-m", "securefg", *own]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


@pytest.mark.slow
def test_the_banks_run_audit_report_verify_and_draw_a_curve(tmp_path: Path) -> None:
    printed_by_command = {}
    for words in documented():
        printed_by_command[" ".join(words[:2])] = carried_out(words, tmp_path)
    assert "in rings" in printed_by_command["python examples/banks/generate.py"]
    assert "average precision" in printed_by_command["securefg run"]
    assert "wrong" not in printed_by_command["securefg verify"]
    assert (tmp_path / "curves").exists() or "curve" in printed_by_command["securefg curve"]
    page = next(tmp_path.glob("runs/banks-s0-*/dpo.html")).read_text()
    assert "account holders" in page
    alone = carried_out(["securefg", "curve", "curve.yaml", "--seeds", "1"], tmp_path)
    assert "no setting is recommended" in " ".join(alone.split())


def script(name: str, folder: Path) -> str:
    """What one of the example's scripts prints, in an empty folder."""
    port = str(free_port())
    programs = folder / "bin"
    programs.mkdir()
    for program, words in (("python", ""), ("securefg", " -m securefg")):
        (programs / program).write_text(f'#!/bin/sh\nexec "{sys.executable}"{words} "$@"\n')
        (programs / program).chmod(0o700)
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    (folder / "empty").mkdir()
    done = subprocess.run(
        ["bash", str(ROOT / "examples/banks" / name)],
        cwd=folder / "empty",
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "PORT": port},
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, (done.stdout[-1500:], done.stderr[-1500:])
    return done.stdout


@pytest.mark.slow
def test_one_script_goes_from_tables_to_the_curve(tmp_path: Path) -> None:
    said = " ".join(script("all.sh", tmp_path).split())
    assert "18 of 18 done" in said or (tmp_path / "empty/curves/curve/curve.html").exists()
    assert len(list((tmp_path / "empty/runs").glob("*/dpo.html"))) == 2


@pytest.mark.slow
def test_one_script_deploys_the_four_banks(tmp_path: Path) -> None:
    printed_text = script("deploy.sh", tmp_path)
    assert printed_text.count("the floor refuses it: Update.weights has no noise; wanted 1") == 4
    assert printed_text.count("the floor allows it") == 4
    assert "40 (all rounds done)" in printed_text
    assert [
        printed_text.count(f"signed by {bank}") for bank in ("north", "south", "east", "west")
    ] == [1] * 4
    assert (tmp_path / "empty/together.html").exists()
    assert not list((tmp_path / "empty/fetched").rglob("*shards*"))
