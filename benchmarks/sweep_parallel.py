"""Two points at the same time against one after the other: the ratio of wall times.

    python benchmarks/sweep_parallel.py [--points 4]

Every point is a run of the quickstart with another seed, in a fresh folder. Wall time is what is
claimed, so an idle machine with two cores is needed; the load is printed beside the ratio.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from securefg.settings.config import load_config
from securefg.sweep import Point, sweep_points

CONFIG = Path(__file__).parents[1] / "configs" / "quickstart.yaml"


def seconds(points: int, jobs: int) -> float:
    configs = [load_config(CONFIG, [f"seed={seed}"]) for seed in range(points)]
    with tempfile.TemporaryDirectory() as root:
        started = time.monotonic()
        outcome = sweep_points([Point(f"seed {c.seed}", c) for c in configs], Path(root), jobs)
        assert len(outcome.done) == points, outcome
        return time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=4)
    points = parser.parse_args().points
    load = os.getloadavg()[0]
    one, two = seconds(points, 1), seconds(points, 2)
    print(f"{points} points, load before {load:.1f} on {os.cpu_count()} cores")
    print(f"one after the other {one:.1f} s, two at a time {two:.1f} s, ratio {two / one:.2f}")


if __name__ == "__main__":
    main()
