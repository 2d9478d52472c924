"""`make demo` ends by naming the commands of the green and the red page."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from audits.curves.settings import load_curve

PAGES = ("configs/curve_green.yaml", "configs/curve_red.yaml")


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_demo_names_the_green_and_the_red_page_last() -> None:
    shown = subprocess.run(
        ["make", "-n", "--no-print-directory", "demo"], capture_output=True, text=True, check=True
    )
    last = shown.stdout.splitlines()[-2:]
    for line, config in zip(last, PAGES, strict=True):
        assert f"securefg curve {config}" in line


@pytest.mark.parametrize("config", PAGES)
def test_demo_page_asks_for_every_attack_in_three_seeds(config: str) -> None:
    curve = load_curve(Path(config))
    assert curve.seeds >= 3
    assert set(curve.adversaries) == {"server", "client:0", "outsider"}
    assert all(sweep.attacks is None and not sweep.exclude for sweep in curve.sweeps)
