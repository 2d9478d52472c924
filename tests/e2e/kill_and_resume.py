"""Kills a run with SIGKILL at random moments, resumes it until it is done, and compares.

    python tests/e2e/kill_and_resume.py FOLDER METHOD ENGINE NUM_KILLS SEED

The run's process is forked from this one, so that a kill costs no import. Prints the number of
kills that hit a living run, and exits 1 where the model or the metrics differ from the unbroken
run's.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

from securefg.runs import runner
from securefg.runs.folder import RunFolder
from securefg.settings.config import RunConfig
from tests.small import config

ROUNDS = 24


def main(folder: Path, method: str, engine: str, num_kills: int, seed: int) -> int:
    overrides = [f"training.rounds={ROUNDS}", "output.checkpoint_every=3", f"engine.name={engine}"]
    began = time.monotonic()
    whole = runner.start(config(folder / "whole", *overrides, method=method)).folder
    duration = time.monotonic() - began
    draws = random.Random(seed)
    kills = attempt = 0
    while kills < num_kills:
        attempt += 1
        broken = config(folder / f"broken-{attempt}", *overrides, method=method)
        kills += break_until_done(broken, draws, duration, num_kills - kills)
        path = next((folder / f"broken-{attempt}").glob("run-*"))
        if not same(whole.path, path):
            print(f"differs after {kills} kills: {path}")
            return 1
    print(f"kills {kills}")
    return 0


def break_until_done(broken: RunConfig, draws: random.Random, duration: float, most: int) -> int:
    """Run and kill, resume and kill, until the run has ended; returns how often it was killed."""
    kills = 0
    while True:
        child = os.fork()
        if child == 0:
            try:
                execute(broken)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        if kills < most:
            time.sleep(draws.uniform(0, duration))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            if os.waitstatus_to_exitcode(status) != 0:
                sys.exit(f"the run failed after {kills} kills")
            return kills
        kills += 1


def execute(broken: RunConfig) -> None:
    """Begin the run or go on with it; one that was killed after its last line is left alone."""
    folders = list(broken.output.root.glob("run-*"))
    if not folders:
        runner.start(broken)
    elif not RunFolder.open(folders[0]).finished:
        runner.resume(RunFolder.open(folders[0]))


def same(first_path: Path, other: Path) -> bool:
    models = [(path / "model.safetensors").read_bytes() for path in (first_path, other)]
    metrics = [
        [{**line, "seconds": 0} for line in RunFolder.open(path).metrics()]
        for path in (first_path, other)
    ]
    counts = [RunFolder.open(path).summary().bytes for path in (first_path, other)]
    return models[0] == models[1] and metrics[0] == metrics[1] and counts[0] == counts[1]


if __name__ == "__main__":
    where, which, engine_name, kill_count, chosen = sys.argv[1:]
    sys.exit(main(Path(where), which, engine_name, int(kill_count), int(chosen)))
