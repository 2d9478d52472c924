"""Kills masked runs with SIGKILL at random moments, resumes them, and solves the kept records.

    python tests/e2e/kill_masked.py FOLDER NUM_KILLS SEED

Exits 1 where a round's sum was opened twice, where anything follows from all sums by algebra, or
where a run without a lost round ends with another model than the unbroken run. A round is lost
where all was killed between the clients' agreement and the server's note of the sum.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from pathlib import Path

from securefg.protocol.transcript import read_transcript
from securefg.runs import runner
from securefg.runs.folder import RunFolder
from tests.e2e.kill_and_resume import break_until_done
from tests.small import config

OVERRIDES = (
    "training.rounds=10",
    "privacy.secure_aggregation={}",
    "partition.shares=[0.5, 0.6, 0.7, 0.8]",
)


def main(folder: Path, num_kills: int, seed: int) -> int:
    began = time.monotonic()
    whole = runner.start(config(folder / "whole", *OVERRIDES)).folder
    duration = time.monotonic() - began
    draws, kills, attempt, lost = random.Random(seed), 0, 0, 0
    while kills < num_kills:
        attempt += 1
        broken = config(folder / f"broken-{attempt}", *OVERRIDES)
        kills += break_until_done(broken, draws, duration, min(4, num_kills - kills))
        run = RunFolder.open(next((folder / f"broken-{attempt}").glob("run-*")))
        wrong, aborted = problems(whole, run)
        lost += aborted
        if wrong:
            print(f"after {kills} kills, {run.path}: {wrong}")
            return 1
    print(f"kills {kills} lost {lost}")
    return 0


def problems(whole: RunFolder, run: RunFolder) -> tuple[str, int]:
    """What is wrong with a run that was broken, and how many rounds it lost."""
    summary = run.summary()
    opened = Counter(
        (r.round, r.kind) for r in read_transcript(run.transcript) if r.sender == "sum"
    )
    twice = [place for place, count in opened.items() if count > 1]
    recovered_counts = summary.recovered_by_algebra
    if twice:
        return f"opened twice: {twice}", 0
    if (
        recovered_counts is None
        or recovered_counts.contributions_recoverable
        or recovered_counts.node_rows_recoverable
    ):
        return f"recoverable: {recovered_counts}", 0
    models = [(one.path / "model.safetensors").read_bytes() for one in (whole, run)]
    if summary.aborted_rounds == 0 and models[0] != models[1]:
        return "another model", 0
    return "", summary.aborted_rounds


if __name__ == "__main__":
    where, kill_count, chosen = sys.argv[1:]
    sys.exit(main(Path(where), int(kill_count), int(chosen)))
