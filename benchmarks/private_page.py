"""Write docs/research/private_settings.md from stored rows.

    python benchmarks/private_page.py [--store FILE] [--page FILE]

`private_settings.py` and `private_mlp.py` measure the rows, examples/aml/table.py those of the
banks (private_banks.json), and private_published.json has figures of other groups. A row whose
config has changed since counts as not measured.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from private_mlp import NAME as MLP
from private_mlp import key_of
from private_settings import FIRST_SEED, SETTINGS, STORE, Line, Setting, lines_of, reached
from stored_runs import Store

from securefg.foundation.interval import interval

HERE = Path(__file__).parent
PAGE_FILE = HERE.parent / "docs" / "research" / "private_settings.md"
TEXT, BANKS, PUBLISHED = (
    HERE / name for name in ("private_page.md", "private_banks.json", "private_published.json")
)
MOST_SEEDS = 50
BEST_LOCAL, REFERENCE = "own sums, local", "joint logistic regression"

Figures = dict[int, float]
"""A figure for every seed."""


def measured(store: Store, setting: Setting, line: Line) -> Figures:
    """Return the stored figures of a line."""
    scores_by_seed = {}
    for seed in range(FIRST_SEED, FIRST_SEED + MOST_SEEDS):
        row = store.find(setting.config, [*line.changes, f"seed={seed}"])
        if row is None:
            break
        scores_by_seed[seed] = reached(row, line.score)
    return scores_by_seed


def mlp_lines(store: Store, name: str, setting: Setting) -> Iterator[tuple[Line, Figures]]:
    """Yield the baseline without links, where it was measured."""
    score = setting.models[0].score
    for epsilon in setting.epsilons:
        rows = (store.kept(key_of(name, epsilon, FIRST_SEED + n)) for n in range(MOST_SEEDS))
        found = {row["seed"]: reached(row, score) for row in rows if row is not None}
        if found:
            yield Line(MLP, epsilon, score, ()), found


def compare(values: Figures, others: Figures) -> str:
    """Return the mean paired difference and its interval, over the seeds of both."""
    both = sorted(values.keys() & others.keys())
    if len(both) < 2:
        return ""
    found = interval([values[seed] - others[seed] for seed in both])
    return f"{found.value:+.3f} ({found.low:+.3f} to {found.high:+.3f})"


def setting_lines(store: Store, name: str, setting: Setting) -> Iterator[str]:
    """Yield the table's lines of a setting, then one for all that is not measured."""
    every = [(line, measured(store, setting, line)) for line in lines_of(setting)]
    every += mlp_lines(store, name, setting)
    alone = every[0][1]
    for line, values in every:
        if not values:
            continue
        epsilon = "" if line.epsilon is None else f"{line.epsilon:g}"
        beside = "" if line is every[0][0] else compare(values, alone)
        mean = sum(values.values()) / len(values)
        cells = (name, setting.silos, line.method, epsilon, f"{mean:.3f}", beside, len(values))
        yield f"| {' | '.join(map(str, cells))} |"
    missing = [
        line.method if line.epsilon is None else f"{line.method} at {line.epsilon:g}"
        for line, values in every
        if not values
    ]
    if missing:
        yield f"| {name} | {setting.silos} | not measured: {', '.join(missing)} | | | | 0 |"


def coverage_lines() -> Iterator[str]:
    """Yield who is covered, and which nodes were used for which choice."""
    for name, one in SETTINGS.items():
        yield f"| {name} | `configs/{one.config}.yaml` | {one.covers} | {one.choices} |"


def published_lines(stored: dict[str, Any]) -> Iterator[str]:
    """Yield the figures of other groups."""
    for row in stored["rows"]:
        tried = "" if row["settings"] is None else str(row["settings"])
        cells = (row["data"], row["method"], row["promise"], tried, *(row[e] for e in "821"))
        yield f"| {' | '.join(cells)} |"


def bank_rows(results: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for every way of training: the mean, and paired differences."""
    for name in results[0]:
        values = dict(enumerate(one[name]["pooled"] for one in results))
        score_interval = interval(list(values.values()))
        gaps = []
        for other in (REFERENCE, BEST_LOCAL):
            others = dict(enumerate(one[other]["pooled"] for one in results))
            gaps.append("" if name == other else compare(values, others))
        level = (
            f"{score_interval.value:.3f} ({score_interval.low:.3f} to {score_interval.high:.3f})"
        )
        yield f"| {name} | {level} | {' | '.join(gaps)} |"


def banks_apart(results: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield average precision by bank, the largest bank first."""
    banks = sorted({bank for one in results for bank in one[REFERENCE]["banks"]}, key=int)
    yield f"| training | {' | '.join(chr(ord('a') + int(bank)) for bank in banks)} |"
    yield "|---" * (len(banks) + 1) + "|"
    for name in results[0]:
        if any(len(one[name]["banks"]) < 2 for one in results):
            continue  # one ranking of all banks' accounts
        cells = []
        for bank in banks:
            known = [one[name]["banks"][bank] for one in results if bank in one[name]["banks"]]
            cells.append(f"{sum(known) / len(known):.2f}" if known else "")
        yield f"| {name} | {' | '.join(cells)} |"


def page_text(store: Store, banks: Sequence[dict[str, Any]], published: dict[str, Any]) -> str:
    """Return the page."""
    table = [line for name, one in SETTINGS.items() for line in setting_lines(store, name, one)]
    return TEXT.read_text().format(
        table="\n".join(table),
        coverage="\n".join(coverage_lines()),
        published="\n".join(published_lines(published)),
        source=published["source"],
        banks="\n".join(bank_rows(banks)) if banks else "not measured",
        apart="\n".join(banks_apart(banks)) if banks else "not measured",
        splits=len(banks),
        first=FIRST_SEED,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--store", type=Path, default=STORE)
    parser.add_argument("--page", type=Path, default=PAGE_FILE)
    given = parser.parse_args()
    banks = json.loads(BANKS.read_text()) if BANKS.is_file() else []
    published = json.loads(PUBLISHED.read_text())
    given.page.write_text(page_text(Store(given.store), banks, published))
    print(f"wrote {given.page}")


if __name__ == "__main__":
    main()
