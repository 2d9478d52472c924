"""`securefg curve`: the same data from run to run, whatever was killed on the way."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
import yaml
from typer.testing import CliRunner

from securefg.cli.main import app
from securefg.sweep import pool
from tests.forks import command, ended, fork_worker, in_a_fork
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


class Drawn(NamedTuple):
    """A curve drawn without disturbance."""

    config: Path
    data: str
    seconds: float


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drawn]:
    folder = tmp_path_factory.mktemp("curve")
    path, began = written(folder), time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "launch", fork_worker)
        once = ["curve", str(path), "--root", str(folder / "a"), "--jobs", "1"]
        done = CliRunner().invoke(app, once)
        assert done.exit_code == 0, done.output
        assert (folder / "a" / "curve_small" / "curve_small.html").stat().st_size < 6_000_000
        yield Drawn(path, data(folder / "a"), time.monotonic() - began)


def test_a_curve_shows_what_noise_stops_and_what_it_costs(drawn: Drawn) -> None:
    points = {point["key"]: point for point in json.loads(drawn.data)["points"]}
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


@pytest.mark.parametrize("shares", [(0.3,), pytest.param((0.1, 0.2, 0.3), marks=pytest.mark.slow)])
def test_a_killed_sweep_gives_the_same_data(
    shares: tuple[float, ...], drawn: Drawn, tmp_path: Path
) -> None:
    """It is killed after a share of the time that the whole curve took, alone, in one job."""
    log = tmp_path / "log"
    curve = command(log, "curve", str(drawn.config), "--root", str(tmp_path))
    for share in shares:
        process = in_a_fork(curve)
        time.sleep(share * drawn.seconds)
        workers = psutil.Process(process).children()
        os.kill(process, signal.SIGKILL)
        ended(process)
        assert not psutil.wait_procs(workers, timeout=120)[1]
    finished = {p: p.stat().st_mtime_ns for p in tmp_path.glob("*/runs/*/summary.json")}
    assert ended(in_a_fork(curve)) == 0, log.read_text()
    # Noise is the system's, so points with noise differ; what has none is the same to the digit.
    again, before = (json.loads(text)["points"] for text in (data(tmp_path), drawn.data))
    assert [point["key"] for point in again] == [point["key"] for point in before]
    assert again[0]["key"] == "small · none"
    assert again[0] == before[0]
    assert all(path.stat().st_mtime_ns == then for path, then in finished.items())
