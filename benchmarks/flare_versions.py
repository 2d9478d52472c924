"""What a step costs in two versions of securefg, in turns: both see the same load.

    git worktree add ../before COMMIT
    python benchmarks/flare_versions.py FOLDER ../before . --turns 4

Runs `tests.e2e.echo` of each checkout on two real sites under mutual TLS, A B A B; a run gives the
median of its steps, and of these the median over the turns is compared.
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


def step_seconds(checkout: Path, folder: Path, size: int) -> float:
    """The median step of one run of a checkout's own code."""
    said = subprocess.run(
        [sys.executable, "-c", RUN, str(folder.resolve()), str(size), str(STEPS[size])],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout.resolve())},
        capture_output=True,
        text=True,
        check=False,
    )
    if said.returncode:
        raise SystemExit(f"{checkout}: {said.stderr[-2000:]}")
    return float(said.stdout.splitlines()[-1])


def main(folder: Path, checkouts: list[Path], turns: int) -> None:
    for size in STEPS:
        found: dict[Path, list[float]] = {checkout: [] for checkout in checkouts}
        for turn in range(turns):
            for number, checkout in enumerate(checkouts):
                place = folder / f"{size}-{turn}-{number}"
                found[checkout].append(step_seconds(checkout, place, size))
        before, after = (statistics.median(found[checkout]) for checkout in checkouts)
        print(
            f"{size / 1e6:.3f} MB: {before:.4f} s, then {after:.4f} s: {after / before:.2f} times; "
            f"load {os.getloadavg()[0]:.1f}; "
            + "; ".join(" ".join(f"{one:.3f}" for one in runs) for runs in found.values()),
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("checkouts", type=Path, nargs=2)
    parser.add_argument("--turns", type=int, default=4)
    given = parser.parse_args()
    main(given.folder, given.checkouts, given.turns)
