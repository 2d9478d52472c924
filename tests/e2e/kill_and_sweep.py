"""Kills a sweep with SIGKILL at random moments, starts it again, and looks at what was repeated.

    python tests/e2e/kill_and_sweep.py FOLDER NUM_KILLS SEED

Workers are forked from this process, so that a kill costs no import; the pool itself is the real
one. Half of the kills hit the sweep, half one of its workers. Exits 1 where a run that had ended
was touched again, a point is missing, a process was left, or the models are not those of runs
that nobody disturbed.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import psutil
from safetensors.torch import load_file

from securefg.runs import runner
from securefg.sweep import Point, find_run, pool, sweep_points
from tests.forks import fork_worker
from tests.small import config

NUM_POINTS = 6


def points() -> list[Point]:
    # The folder is the sweep's to choose.
    rounds = ["training.rounds=20", "output.checkpoint_every=4"]
    seeds = range(NUM_POINTS)
    return [Point(f"s{s}", config(Path("unused"), *rounds, f"seed={s}")) for s in seeds]


def sweep_in_a_fork(root: Path) -> int:
    child = os.fork()
    if child == 0:
        outcome = sweep_points(points(), root, jobs=2)
        for failure in outcome.failed:
            print(f"{failure.key}: {failure.reason} {failure.details}", flush=True)
        os._exit(1 if outcome.failed else 0)
    return child


def ends(root: Path) -> dict[str, tuple[int, int]]:
    """Which summary every finished run has: its inode and time change if it is written again."""
    found = {path: path.stat() for path in root.glob("*/summary.json")}
    return {path.parent.name: (stat.st_ino, stat.st_mtime_ns) for path, stat in found.items()}


def gone(pids: list[int]) -> bool:
    """All of them end by themselves, soon."""
    until = time.monotonic() + 120
    while any(psutil.pid_exists(pid) for pid in pids):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def disturb(root: Path, draws: random.Random, num_kills: int, duration: float) -> str:
    """Start, kill, start again; returns what is wrong, or nothing."""
    finished: dict[str, tuple[int, int]] = {}
    for number in range(num_kills):
        parent = sweep_in_a_fork(root)
        time.sleep(draws.uniform(0, duration))
        workers = [child.pid for child in psutil.Process(parent).children()]
        if number % 2 and workers:
            os.kill(draws.choice(workers), signal.SIGKILL)
            time.sleep(draws.uniform(0, duration))
        os.kill(parent, signal.SIGSTOP)  # it starts no worker that is not looked at
        workers = [child.pid for child in psutil.Process(parent).children()]
        os.kill(parent, signal.SIGKILL)
        os.waitpid(parent, 0)
        if not gone(workers):
            return f"workers outlived their parent: {workers}"
        now = ends(root)
        if not finished.items() <= now.items():
            return f"a finished run was run again after kill {number + 1}"
        finished = now
    parent = sweep_in_a_fork(root)
    if os.waitpid(parent, 0)[1] != 0:
        return "the last sweep failed"
    if not finished.items() <= ends(root).items():
        return "a finished run was run again by the last sweep"
    return ""


def same_model(one: Path, other: Path) -> bool:
    first, second = (load_file(path / "model.safetensors") for path in (one, other))
    return first.keys() == second.keys() and all(first[k].equal(second[k]) for k in first)


def main(folder: Path, num_kills: int, seed: int) -> int:
    pool.launch = fork_worker  # type: ignore[assignment]
    began = time.monotonic()
    alone = {p.config.hash: runner.start(p.below(folder / "whole").config).folder for p in points()}
    duration = (time.monotonic() - began) / 2
    wrong = disturb(folder / "swept", random.Random(seed), num_kills, duration / 3)
    for config_hash, whole in alone.items():
        swept = find_run(folder / "swept", config_hash)
        if swept is None or not swept.finished:
            wrong = wrong or f"{config_hash} is missing"
        elif not same_model(swept.path, whole.path):
            wrong = wrong or f"{swept.path} differs"
    torn = [path.name for path in (folder / "swept").glob(".run-*")]
    wrong = wrong or (f"left behind: {torn}" if torn else "")
    print(wrong or f"kills {num_kills}")
    return 1 if wrong else 0


if __name__ == "__main__":
    where, kill_count, chosen = sys.argv[1:]
    sys.exit(main(Path(where), int(kill_count), int(chosen)))
