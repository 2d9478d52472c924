"""What a step costs in two versions of securefg, in turns: both see the same load.

    git worktree add ../before COMMIT
    python benchmarks/flare_versions.py FOLDER ../before . --turns 4
    python benchmarks/flare_versions.py FOLDER ../before . --turns 3 --masked

Runs `tests.e2e.echo` of each checkout on two real sites under mutual TLS, A B A B; a run gives the
median of its steps, and of these the median over the turns is compared. With `--masked` the turns
are FedGL's models of four clients under masks, and steps are rounds; the first round makes the
set-up and is printed apart.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

STEPS = {1_000: 40, 1_000_000: 20}
RUN = """
import sys
from pathlib import Path
from securefg.flare.launch import start
from tests.small import config

folder, size, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
parsed = config(
    folder,
    f"method={{name: tests.e2e.echo, size: {size // 4}}}",
    "partition.shares=[0.5, 0.5]",
    f"training.rounds={rounds}",
    "output.transcript_every=0",
    "output.checkpoint_every=1000",
    "engine.name=flare",
    "engine.sites=2",
)
print(start(parsed).folder.summary().method_facts["step_seconds"])
"""
MASKED_ROUNDS = 30
RUN_MASKED = """
import json, statistics, sys
from pathlib import Path
from securefg.flare.launch import start
from tests.small import config

parsed = config(
    Path(sys.argv[1]),
    "method={name: fedgl, pseudo_labels: false, pseudo_graph: false, weighting: equal}",
    "partition.shares=[0.5, 0.6, 0.7, 0.8]",
    f"training.rounds={sys.argv[3]}",
    "privacy.secure_aggregation={}",
    "output.transcript_every=0",
    "output.checkpoint_every=1000",
    "engine.name=flare",
    "engine.sites=4",
)
lines = [json.loads(line) for line in open(start(parsed).folder.path / "metrics.jsonl")]
seconds = [line["seconds"] for line in lines if line.get("round", 0) > 0]
took = [after - before for before, after in zip(seconds, seconds[1:])]
print(seconds[0], statistics.median(took))
"""


def run_turn(checkout: Path, script: str, *arguments: object) -> list[float]:
    """Return what a script prints that runs a checkout's own code."""
    completed = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout.resolve())},
        capture_output=True,
        text=True,
        check=False,
    )
    if completed.returncode:
        raise SystemExit(f"{checkout}: {completed.stderr[-2000:]}")
    return [float(word) for word in completed.stdout.splitlines()[-1].split()]


def compare(name: str, seconds_per_checkout: list[list[float]]) -> None:
    """Print the median turn of both checkouts, and their ratio."""
    before, after = (statistics.median(runs) for runs in seconds_per_checkout)
    print(
        f"{name}: {before:.4f} s, then {after:.4f} s: {after / before:.2f} times; "
        f"load {os.getloadavg()[0]:.1f}; "
        + "; ".join(" ".join(f"{one:.3f}" for one in runs) for runs in seconds_per_checkout),
        flush=True,
    )


def compare_steps(folder: Path, checkouts: list[Path], turns: int) -> None:
    """Compare steps of one message each way, without masks."""
    for size, steps in STEPS.items():
        seconds_per_checkout: list[list[float]] = [[] for _ in checkouts]
        for turn in range(turns):
            for number, checkout in enumerate(checkouts):
                place = (folder / f"{size}-{turn}-{number}").resolve()
                seconds_per_checkout[number] += run_turn(checkout, RUN, place, size, steps)
        compare(f"{size / 1e6:.3f} MB", seconds_per_checkout)


def compare_masked(folder: Path, checkouts: list[Path], turns: int) -> None:
    """Compare masked rounds: the first one, and the median of the others."""
    first: list[list[float]] = [[] for _ in checkouts]
    later: list[list[float]] = [[] for _ in checkouts]
    for turn in range(turns):
        for number, checkout in enumerate(checkouts):
            place = (folder / f"masked-{turn}-{number}").resolve()
            one, others = run_turn(checkout, RUN_MASKED, place, 0, MASKED_ROUNDS)
            first[number].append(one)
            later[number].append(others)
    compare("first masked round", first)
    compare("later masked rounds", later)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("checkouts", type=Path, nargs=2)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--masked", action="store_true")
    given = parser.parse_args()
    run = compare_masked if given.masked else compare_steps
    run(given.folder, given.checkouts, given.turns)
