"""Compare new ratios with stored ones at a wide margin: a guard against lost performance.

    python benchmarks/bench_check.py [NEW] [--stored benchmarks/rows.json] [--margin 2]

NEW is build/bench_rows.json unless another file is given. Only ratios (unit x) are compared, since
seconds depend on the machine. The script exits 1 where a ratio is worse than the stored one by more
than the margin, and where a benchmark of NEW failed or lacks a stored row.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from bench import ROWS
from limits import Outcome, Row, read_outcomes

STORED = Path(__file__).parent / "rows.json"


def ratio_rows(outcome: Outcome) -> dict[str, Row]:
    """Return the rows that are ratios, by name."""
    return {row.name: row for row in outcome.rows if row.unit == "x"}


def lost_factor(row: Row, stored: Row) -> float:
    """Return how many times worse a ratio is than the stored one; below 1 it is better."""
    better, worse = (row.found, stored.found) if row.least else (stored.found, row.found)
    return worse / better if better > 0 else float("inf")


def find_losses(
    new: Mapping[str, Outcome], stored: Mapping[str, Outcome], margin: float
) -> list[str]:
    """Return a line for every ratio that was lost, and for every row that is not there."""
    lines = []
    for script, outcome in new.items():
        if outcome.failure:
            lines.append(f"{script}: failed: {outcome.failure}")
            continue
        rows, before = ratio_rows(outcome), ratio_rows(stored.get(script, Outcome(script)))
        lines += [f"{name}: found no new row" for name in before.keys() - rows.keys()]
        lines += [f"{name}: found no stored row" for name in rows.keys() - before.keys()]
        for name in sorted(rows.keys() & before.keys()):
            factor = lost_factor(rows[name], before[name])
            if factor > margin:
                found, wanted = rows[name].found, before[name].found
                lines.append(f"{name}: found {found:.3g} x; expected about {wanted:.3g} x")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("new", type=Path, nargs="?", default=ROWS)
    parser.add_argument("--stored", type=Path, default=STORED)
    parser.add_argument("--margin", type=float, default=2.0)
    asked = parser.parse_args()
    new = read_outcomes(asked.new)
    if not new:
        raise SystemExit(f"{asked.new}: found no rows; expected some; run `make bench` first")
    losses = find_losses(new, read_outcomes(asked.stored), asked.margin)
    print("\n".join(losses) or f"{len(new)} benchmarks: no ratio was lost")
    return int(bool(losses))


if __name__ == "__main__":
    sys.exit(main())
