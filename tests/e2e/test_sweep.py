"""A sweep can be killed and interrupted at any moment; nothing runs twice, nothing is left over."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from securefg.sweep import Point, find_run, pool, sweep_points
from tests.forks import ended, fork_worker, in_a_fork, logged, script
from tests.small import config


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_a_killed_sweep_repeats_no_point(kills: int, tmp_path: Path) -> None:
    done = script(Path(__file__).with_name("kill_and_sweep.py"), str(tmp_path), str(kills), "7")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"kills {kills}" in done.stdout


def long_sweep(root: Path, num_points: int) -> tuple[int, list[psutil.Process]]:
    """A sweep of endless points in a fork, all of them under way in workers of their own."""

    def work() -> None:
        endless = [config(root, f"seed={s}", "training.rounds=100000") for s in range(num_points)]
        outcome = sweep_points([Point(f"s{one.seed}", one) for one in endless], root, jobs=2)
        sys.exit(130 if outcome.interrupted else 0)

    parent = in_a_fork(logged(root / "log", work))
    until = time.monotonic() + 600
    while len(list(root.glob("run-*/metrics.jsonl"))) < num_points and time.monotonic() < until:
        time.sleep(0.05)
    return parent, psutil.Process(parent).children(recursive=True)


def test_ctrl_c_checkpoints_every_point_and_leaves_no_child(tmp_path: Path) -> None:
    parent, children = long_sweep(tmp_path, 2)
    assert len(children) == 2
    os.kill(parent, signal.SIGINT)
    code, said = ended(parent), (tmp_path / "log").read_text()
    assert code == 130, said
    assert "Traceback" not in said
    assert not [child for child in children if child.is_running()]
    assert len(list(tmp_path.glob("run-*/checkpoints/round-*"))) >= 2


def test_workers_die_with_a_killed_parent(tmp_path: Path) -> None:
    parent, children = long_sweep(tmp_path, 1)
    assert len(children) == 1
    os.kill(parent, signal.SIGKILL)
    ended(parent)
    _, alive = psutil.wait_procs(children, timeout=120)
    assert not alive
    assert not list(tmp_path.glob("run-*/summary.json"))


def test_what_failed_is_told_and_kept_and_what_was_done_is_not_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "launch", fork_worker)
    good = Point("good", config(tmp_path))
    twin = Point("twin of good", config(tmp_path, "name=twin"))
    bad = Point("bad", config(tmp_path, "data.csbm=null", "data.name=folder", "data.folder=/none"))
    root = tmp_path / "root"
    first = sweep_points([good, bad, twin], root, jobs=1)
    assert first.done == ("good",)
    assert [f.key for f in first.failed] == ["bad"]
    assert "/none" in first.failed[0].reason
    assert not first.failed[0].details
    assert not first.interrupted
    folder = find_run(root, good.config.hash)
    assert folder is not None
    assert len(list(root.glob("*-s0-*"))) == 1
    before = (folder.path / "summary.json").stat()
    second = sweep_points([good, bad], root, jobs=1)
    assert second.cached == ("good",)
    assert second.done == ()
    assert [f.key for f in second.failed] == ["bad"]
    assert (folder.path / "summary.json").stat().st_mtime_ns == before.st_mtime_ns
