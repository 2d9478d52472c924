"""The documented commands run on a bank's table: 7 columns, 93:7 classes, 4 banks."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path("examples/bank").resolve()


def said(*command: str, cwd: Path) -> str:
    done = subprocess.run([sys.executable, *command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_banks_run_audit_report_verify_and_draw_a_curve(tmp_path: Path) -> None:
    bank = tmp_path / "bank"
    shutil.copytree(HERE, bank, ignore=shutil.ignore_patterns("accounts", "runs"))
    assert "84 fraudulent" in said("make_table.py", cwd=bank)
    said("-m", "securefg", "run", "bank/bank.yaml", "-q", cwd=tmp_path)
    run = str(next((tmp_path / "runs").glob("bank-*")))
    said("-m", "securefg", "audit", run, "-q", cwd=tmp_path)
    said("-m", "securefg", "report", run, "--for", "dpo", cwd=tmp_path)
    assert "wrong" not in said("-m", "securefg", "verify", run, cwd=tmp_path)
    drawn = said("-m", "securefg", "curve", "bank/curve.yaml", "--seeds", "1", cwd=tmp_path)
    assert "no setting is recommended" in drawn.replace("\n", " ")
