"""The documented commands run on four banks' tables: 7 columns, 93:7 classes, 4 banks."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```console\n(cp examples/banks.*?)```", re.S)
FEW = ["--customers", "500", "--rings", "6"]
SHORT = ["--set", "training.rounds=4"]


def documented() -> list[list[str]]:
    (block,) = BLOCK.findall((ROOT / "docs/audit.md").read_text())
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
    said = {}
    for words in documented():
        said[" ".join(words[:2])] = carried_out(words, tmp_path)
    assert "in rings" in said["python examples/banks/generate.py"]
    assert "average precision" in said["securefg run"]
    assert "wrong" not in said["securefg verify"]
    assert (tmp_path / "curves").exists() or "curve" in said["securefg curve"]
    page = next(tmp_path.glob("runs/banks-s0-*/dpo.html")).read_text()
    assert "account holders" in page
    alone = carried_out(["securefg", "curve", "curve.yaml", "--seeds", "1"], tmp_path)
    assert "no setting is recommended" in " ".join(alone.split())
