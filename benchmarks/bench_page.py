"""Write docs/research/benchmarks.md from stored rows.

    python benchmarks/bench_page.py [ROWS] [--page docs/research/benchmarks.md]

ROWS is benchmarks/rows.json unless another file is given. The script refuses, and exits 1, where a
row misses its limit and `missed.json` has no explanation for it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from bench import LONG, QUICK, WHOLE
from limits import Outcome, read_outcomes

HERE = Path(__file__).parent
STORED, MISSED = HERE / "rows.json", HERE / "missed.json"
HEAD = ("benchmark", "limit", "figure", "met", "command", "load", "took")
PAGE = """# Benchmarks

*For everybody who asks how fast securefg is.*

Ratios against peers, and limits. `python benchmarks/bench_page.py` writes this page from
`benchmarks/rows.json`, and `make bench-page` measures all rows before that. The machine has
{cores} cores. Rows were measured at different times and versions.

Every row is one measurement. `load` is the load of the machine when the benchmark began, and
`took` is the time of the whole benchmark. A busy machine moves all figures: seconds most,
CPU-seconds and ratios of memory-bound work by tens of percent, and twofold beside a dozen jobs.

The limits of masking, recovery, sessions, Flower, OpenFGL, FLARE and a million users were set
before the work. The other limits were set from earlier figures with room, so that a loss shows.
OpenFGL is the real library, version 1.1.0 from the package index, in an environment of its own.
`make bench-check` compares the ratios of a new `make bench` with the stored ones and fails where
one is less than half as good. [Growth](growth.md) tells how costs grow with sizes. More figures:
[secure aggregation](secagg_benchmarks.md), [FLARE](flare_measured.md),
[nFedGNN](../reference/nfedgnn.md), [FedGL](../reference/fedgl.md).

{table}

## Missed limits

{missed}

Next: [how costs grow](growth.md)
"""


def table_lines(outcome: Outcome) -> list[tuple[str, ...]]:
    """Return the cells of a benchmark's rows; one line for a benchmark that failed."""
    command = f"`python benchmarks/{outcome.script}.py`"
    about = (command, f"{outcome.load:.1f}", f"{outcome.seconds:.0f} s")
    if outcome.failure:
        return [(outcome.script, "", f"failed: {outcome.failure}", "NO", *about)]
    return [(*row.cells(), *about) for row in outcome.rows]


def missed_names(outcomes: Mapping[str, Outcome]) -> list[str]:
    """Return the names of the rows that miss their limit, and of benchmarks that failed."""
    return [
        cells[0]
        for outcome in in_order(outcomes)
        for cells in table_lines(outcome)
        if cells[3] == "NO"
    ]


def in_order(outcomes: Mapping[str, Outcome]) -> list[Outcome]:
    """Return the outcomes in the order in which benchmarks run."""
    return [outcomes[name] for name in (*QUICK, *LONG, WHOLE) if name in outcomes]


def page_text(outcomes: Mapping[str, Outcome], explanations: Mapping[str, str]) -> str:
    """Return the page; raise where a missed row has no explanation."""
    missed = missed_names(outcomes)
    unexplained = [name for name in missed if not explanations.get(name)]
    if unexplained:
        raise SystemExit(f"missed.json: found no explanation for: {'; '.join(unexplained)}")
    cells = [HEAD, ("---",) * len(HEAD)]
    cells += [line for outcome in in_order(outcomes) for line in table_lines(outcome)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in cells)
    reasons = "\n".join(f"- **{name}.** {explanations[name]}" for name in missed)
    return PAGE.format(cores=os.cpu_count(), table=table, missed=reasons or "There are none.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", type=Path, nargs="?", default=STORED)
    parser.add_argument("--page", type=Path, default=Path("docs/research/benchmarks.md"))
    asked = parser.parse_args()
    outcomes = read_outcomes(asked.rows)
    if not outcomes:
        raise SystemExit(f"{asked.rows}: found no rows; expected the file that bench.py writes")
    asked.page.write_text(page_text(outcomes, json.loads(MISSED.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
