"""All ratios against peers and limits, in one table.

    python benchmarks/bench.py                      those that take seconds each
    python benchmarks/bench.py --all                with Flower, FLARE, PubMed and a million users
    python benchmarks/bench.py --write docs/benchmarks.md

Every benchmark runs in a process of its own, one after the other, and gives its rows; one that
fails is a line of its own, and no limit is met by it. Exits 1 where a limit is not met.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from limits import Row

QUICK = (
    "codec_speed",
    "shared_frames",
    "bench_masking",
    "spine_overhead",
    "gfl_speed",
    "openfgl",
    "deepwalk_speed",
)
LONG = (
    "secagg_recovery",
    "nfedgnn_speed",
    "pubmed_memory",
    "users_by_command",
    "secagg_against_flower",
    "flare_latency",
)
HEAD = ("what", "wanted", "found", "met", "command")
PAGE = """# Benchmarks

Ratios against peers, and limits. Written by
`python benchmarks/bench.py{options} --write docs/benchmarks.md` on {cores} cores, at a load of
{load:.1f} when it began. Every row is one measurement. A busy machine moves all of them: seconds
most, CPU-seconds and ratios of memory-bound work by tens of percent.

Targets set beforehand: masking, recovery, Flower, OpenFGL, FLARE, a million users. The other limits
were set from earlier figures, with room, so that a loss shows; to meet them proves no more.

{table}
"""


@dataclass(frozen=True)
class Outcome:
    """What one benchmark gave: rows, or why there are none."""

    script: str
    rows: tuple[Row, ...] = ()
    failure: str = ""

    @property
    def met(self) -> bool:
        return not self.failure and all(row.met for row in self.rows)

    def lines(self) -> list[tuple[str, ...]]:
        command = f"`python benchmarks/{self.script}.py`"
        if self.failure:
            return [(self.script, "", f"failed: {self.failure}", "NO", command)]
        return [(*row.cells(), command) for row in self.rows]


def outcome(script: str) -> Outcome:
    command = [sys.executable, __file__, "--one", script]
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **single})
    if done.returncode:
        said = (done.stderr.strip() or "nothing was said").splitlines()[-1]
        return Outcome(script, failure=said[:120])
    found = json.loads(done.stdout.splitlines()[-1])
    return Outcome(script, tuple(Row(**row) for row in found))


def table(outcomes: list[Outcome]) -> str:
    lines = [HEAD, ("---",) * len(HEAD), *(line for each in outcomes for line in each.lines())]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="the long ones too")
    parser.add_argument("--only", nargs="+", choices=[*QUICK, *LONG])
    parser.add_argument("--write", type=Path, help="the page to write")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        rows = importlib.import_module(asked.one).rows()
        print(json.dumps([row.to_json() for row in rows]))
        return 0
    load, outcomes = os.getloadavg()[0], []
    for script in asked.only or [*QUICK, *(LONG if asked.all else ())]:
        outcomes.append(outcome(script))
        for line in outcomes[-1].lines():
            print("  ".join(line[:-1]), flush=True)
    if asked.write:
        options = " --all" if asked.all else ""
        page = PAGE.format(options=options, cores=os.cpu_count(), load=load, table=table(outcomes))
        asked.write.write_text(page)
    return int(not all(each.met for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
