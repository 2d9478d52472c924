"""A run killed at any moment resumes to the same weights."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.forks import script

SCRIPT = Path(__file__).with_name("kill_and_resume.py")


@pytest.mark.parametrize(
    ("method", "engine", "kills", "seed"),
    [
        ("fedgl", "inprocess", 6, 4),
        ("alone", "inprocess", 3, 5),
        ("fedgl", "processes", 1, 6),
        pytest.param("fedgl", "inprocess", 20, 1, marks=pytest.mark.slow),
        pytest.param("alone", "inprocess", 10, 2, marks=pytest.mark.slow),
        pytest.param("fedgl", "processes", 2, 3, marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_resumes_to_the_same_weights(
    method: str, engine: str, kills: int, seed: int, tmp_path: Path
) -> None:
    done = script(SCRIPT, str(tmp_path), method, engine, str(kills), str(seed))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"kills {kills}" in done.stdout


@pytest.mark.slow
def test_masked_runs_killed_at_any_moment_open_no_round_twice(tmp_path: Path) -> None:
    masked = SCRIPT.with_name("kill_masked.py")
    command = [sys.executable, str(masked), str(tmp_path), "20", "1"]
    environment = {"PYTHONPATH": str(SCRIPT.parents[2])}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kills 20" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("what", ["audit", "curve"])
def test_audits_and_curves_killed_at_any_moment_end_as_undisturbed_ones(
    what: str, tmp_path: Path
) -> None:
    killing = SCRIPT.with_name("kill_audits.py")
    command = [sys.executable, str(killing), str(tmp_path), what, "10", "1"]
    environment = {"PYTHONPATH": str(SCRIPT.parents[2])}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=1800, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kills 1" in done.stdout
