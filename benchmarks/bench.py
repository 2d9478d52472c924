"""Run the benchmarks that have limits and store their rows in a JSON file.

    python benchmarks/bench.py                      the quick ones: at most six minutes
    python benchmarks/bench.py --all                with Flower, FLARE, PubMed and a million users
    python benchmarks/bench.py --only NAME ...      some of them
    python benchmarks/bench.py --rows FILE          into another file than build/bench_rows.json

Every benchmark runs in a process of its own, one after the other. A benchmark that fails or does
not end is a row of its own and meets no limit. The file keeps rows of benchmarks that did not run.
The script exits 1 where a limit is not met. `bench_page.py` writes the page from such a file, and
`bench_check.py` compares it with the stored one.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from limits import Outcome, Row, store_outcomes

QUICK = (
    "codec_speed",
    "shared_frames",
    "bench_masking",
    "spine_overhead",
    "gfl_speed",
    "libraries",
    "openfgl",
    "deepwalk_speed",
    "secagg_simulation",
)
LONG = (
    "secagg_recovery",
    "nfedgnn_speed",
    "pubmed_memory",
    "users_by_command",
    "secagg_against_flower",
    "flare_latency",
)
WHOLE = "bench"
"""The name under which the time of all quick benchmarks together is stored."""
MOST_SECONDS = 1200
MOST_SECONDS_OF_QUICK = 360.0
ROWS = Path("build/bench_rows.json")


def run_benchmark(script: str) -> Outcome:
    """Run one benchmark and return its outcome with the machine's load and the time it took."""
    load, began = os.getloadavg()[0], time.monotonic()
    rows, failure = measure_rows(script)
    return Outcome(script, rows, failure, load, time.monotonic() - began)


def measure_rows(script: str) -> tuple[tuple[Row, ...], str]:
    """Return a benchmark's rows, or why it has none."""
    command = [sys.executable, __file__, "--one", script]
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, **single},
            timeout=MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return (), f"did not end in {MOST_SECONDS} s"
    if done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        return (), last[:120].replace("|", "/")
    return tuple(Row(**row) for row in json.loads(done.stdout.splitlines()[-1])), ""


def show_outcome(outcome: Outcome) -> None:
    """Print a line per row."""
    for row in outcome.rows:
        print("  ".join(row.cells()), f"  {outcome.seconds:.0f} s", flush=True)
    if outcome.failure:
        print(f"{outcome.script}  failed: {outcome.failure}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="the long ones too")
    parser.add_argument("--only", nargs="+", choices=[*QUICK, *LONG])
    parser.add_argument("--rows", type=Path, default=ROWS, help="the file to write")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        rows = importlib.import_module(asked.one).rows()
        print(json.dumps([row.to_json() for row in rows]))
        return 0
    load, outcomes = os.getloadavg()[0], []
    for script in asked.only or [*QUICK, *(LONG if asked.all else ())]:
        outcomes.append(run_benchmark(script))
        show_outcome(outcomes[-1])
        store_outcomes(asked.rows, outcomes[-1:])
    if not asked.only:
        seconds = sum(each.seconds for each in outcomes if each.script in QUICK)
        row = Row("all quick benchmarks together", MOST_SECONDS_OF_QUICK, seconds, "s")
        outcomes.append(Outcome(WHOLE, (row,), load=load, seconds=seconds))
        show_outcome(outcomes[-1])
        store_outcomes(asked.rows, outcomes[-1:])
    return int(not all(each.met for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
