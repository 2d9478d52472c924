"""`make demo` and `securefg demo` end by naming what to type next."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from audits.curves.settings import load_curve
from securefg.cli.demo import NEXT

PAGES = ("configs/curve_green.yaml", "configs/curve_red.yaml")


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_demo_runs_the_demo_and_names_the_activation() -> None:
    shown = subprocess.run(
        ["make", "-n", "--no-print-directory", "demo"], capture_output=True, text=True, check=True
    )
    *_, demo, _, last = shown.stdout.splitlines()
    assert demo.endswith("bin/securefg demo")
    assert ". .venv/bin/activate" in last


@pytest.mark.parametrize("config", PAGES)
def test_demo_names_the_green_and_the_red_page(config: str) -> None:
    assert any(f"securefg curve {Path(config).stem} " in line for line in NEXT)


@pytest.mark.parametrize("config", PAGES)
def test_demo_page_asks_for_every_attack_in_three_seeds(config: str) -> None:
    curve = load_curve(Path(config))
    assert curve.seeds >= 3
    assert set(curve.adversaries) == {"server", "client:0", "outsider"}
    assert all(sweep.attacks is None and not sweep.exclude for sweep in curve.sweeps)
