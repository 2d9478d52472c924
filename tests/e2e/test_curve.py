"""`securefg curve`: the same data from run to run, whatever was killed on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from securefg.cli.main import app
from tests.small import tree


def written(folder: Path) -> Path:
    run = tree(folder / "unused")
    run["method"]["weighting"] = "equal"
    run["data"]["csbm"]["num_nodes"] = 300
    (folder / "small.yaml").write_text(yaml.safe_dump(run))
    noise = {"name": "local_gaussian", "epsilon": [1, 1000000], "privacy": {"unit": "row"}}
    sweep = {
        "config": "small.yaml",
        "label": "small",
        "defences": [{"name": "none"}, noise],
        "attacks": ["whitened_links"],
    }
    curve = {"sweeps": [sweep], "seeds": 1, "trials": 1000, "limits": {"leak_gain": 0.01}}
    (folder / "curve_small.yaml").write_text(yaml.safe_dump(curve))
    return folder / "curve_small.yaml"


def data(root: Path) -> str:
    return (root / "curve_small" / "data.json").read_text()


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A curve drawn without disturbance: its config and its data."""
    folder = tmp_path_factory.mktemp("curve")
    path = written(folder)
    done = CliRunner().invoke(app, ["curve", str(path), "--root", str(folder / "a"), "--jobs", "1"])
    assert done.exit_code == 0, done.output
    assert (folder / "a" / "curve_small" / "curve_small.html").stat().st_size < 6_000_000
    return path, data(folder / "a")


def test_a_curve_shows_what_noise_stops_and_what_it_costs(drawn: tuple[Path, str]) -> None:
    points = {point["key"]: point for point in json.loads(drawn[1])["points"]}
    plain, tight, loose = (
        points[f"small · {name}"]
        for name in ("none", "local_gaussian ε=1", "local_gaussian ε=1e+06")
    )
    leaks = [
        next(leak for leak in point["leaks"] if leak["attack"] == "whitened_links")
        for point in (plain, tight, loose)
    ]
    assert leaks[0]["verdict"] == "LEAK", plain["leaks"]
    assert leaks[1]["verdict"] != "LEAK"
    assert leaks[1]["gain"]["value"] <= leaks[2]["gain"]["high"]
    assert tight["epsilon_lower"] <= tight["epsilon_claimed"] <= 1
    assert not any(point["failed"] for point in points.values())


@pytest.mark.parametrize("waits", [(5.0,), pytest.param((2.5, 4.0, 5.5), marks=pytest.mark.slow)])
def test_a_killed_sweep_gives_the_same_data(
    waits: tuple[float, ...], drawn: tuple[Path, str], tmp_path: Path
) -> None:
    path, undisturbed = drawn
    command = [sys.executable, "-m", "securefg", "curve", str(path), "--root", str(tmp_path)]
    for wait in waits:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(wait)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    finished = {p: p.stat().st_mtime_ns for p in tmp_path.glob("*/runs/*/summary.json")}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    # Noise is the system's, so points with noise differ; what has none is the same to the digit.
    again, before = (json.loads(text)["points"] for text in (data(tmp_path), undisturbed))
    assert [point["key"] for point in again] == [point["key"] for point in before]
    assert again[0]["key"] == "small · none"
    assert again[0] == before[0]
    assert all(path.stat().st_mtime_ns == then for path, then in finished.items())
