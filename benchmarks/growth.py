"""How CPU-seconds and peak memory of `run`, `audit` and `curve` grow with sizes.

    python benchmarks/growth.py [--axes nodes clients ...] [--largest 1000000]
    python benchmarks/growth.py --page docs/research/growth.md      write the page

Every measurement is the command itself with `--profile`, in a process of its own. The figures go to
benchmarks/growth_rows.json, where a repeated measurement replaces the older one. An exponent is the
slope of log cost over log size, by least squares over the sizes of an axis, after the start-up of
the command is taken off. Sizes whose cost is below a second after start-up tell nothing and are
left out of the fit. An exponent above 1.2 is marked: the cost grows faster than the size.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from attacks import attack_names

HERE = Path(__file__).parent
ROWS, CONFIGS = HERE / "growth_rows.json", HERE.parent / "configs"
FAST = 1.2
LEAST_SECONDS = 1.0
HEAD = ("axis", "config", "size", "command", "CPU s", "start-up s", "peak GiB")


@dataclass(frozen=True)
class Measured:
    """The cost of one command at one size of an axis; CPU-seconds include the start-up."""

    axis: str
    config: str
    size: int
    command: str
    cpu_seconds: float
    start_up: float
    peak_gib: float

    @property
    def key(self) -> tuple[str, str, int, str]:
        return self.axis, self.config, self.size, self.command


@dataclass(frozen=True)
class Axis:
    """One size that grows while the others stay.

    settings  overrides of the config, with {} for the size
    audit     more arguments of the audit, with {} for the size; None: no audit is measured
    """

    name: str
    config: str
    sizes: tuple[int, ...]
    settings: tuple[str, ...] = ()
    audit: tuple[str, ...] | None = ()


SMALL = ("data.csbm.num_nodes=20000", "data.csbm.mu=20000")
NODES = ("data.csbm.num_nodes={}", "data.csbm.mu={}")
CLIENTS = (*SMALL, "partition.num_clients={}")
SHADOWS = ("--only=membership_lira", "--set=audit.num_shadows={}")
AXES = (
    Axis("nodes", "fedavg_million", (10_000, 100_000, 300_000, 1_000_000), NODES),
    Axis("nodes", "two_sums_million", (10_000, 100_000, 1_000_000), NODES),
    Axis("clients", "fedavg_million", (10, 100, 1_000, 10_000), CLIENTS),
    Axis("users", "nfedgnn_million", (10_000, 100_000, 1_000_000), NODES, None),
    Axis("edges per node", "fedavg_million", (10, 40, 160), (*SMALL, "data.csbm.degree={}")),
    Axis("rounds", "fedavg_million", (3, 12, 48), (*SMALL, "training.rounds={}")),
    Axis("noise trials", "two_sums_million", (10_000, 100_000, 1_000_000), SMALL, ("--trials={}",)),
    Axis("shadows", "quickstart", (64, 256, 1_024), (), SHADOWS),
    Axis("attacks", "quickstart", (10, 20, 40), (), ("--only={}",)),
)
CURVE_SEEDS = (1, 2)


def profile_command(*arguments: str) -> tuple[float, float, float]:
    """Run a command and return its CPU-seconds, those of its start-up, and its peak in GiB."""
    command = [sys.executable, "-m", "securefg", *arguments, "--quiet", "--profile"]
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **single})
    lines = [line.split(": ", 2)[2] for line in done.stderr.splitlines() if ": profile: " in line]
    if not lines:
        raise SystemExit(f"{' '.join(arguments)}: {done.stderr.strip().splitlines()[-1:]}")
    table = {line[:14].strip(): line[14:].split() for line in lines[1:] if line[14:15] == " "}
    total = table["total"]
    return float(total[0]), float(table["start-up"][0]), float(total[1])


def measure_axis(axis: Axis, largest: int) -> Iterator[Measured]:
    """Yield the costs of run and audit for every size up to the largest."""
    for size in axis.sizes:
        if size > largest:
            continue
        with tempfile.TemporaryDirectory() as root:
            sets = [f"--set={each.format(size)}" for each in axis.settings]
            config = str(CONFIGS / f"{axis.config}.yaml")
            used = profile_command("run", config, *sets, f"--set=output.root={root}")
            yield Measured(axis.name, axis.config, size, "run", *used)
            if axis.audit is not None:
                (folder,) = Path(root).iterdir()
                # The attacks are the first ones of the alphabet.
                shown = attack_names()[:size] if axis.name == "attacks" else [str(size)]
                more = [each.format(value) for each in axis.audit for value in shown]
                used = profile_command("audit", str(folder), "--jobs=1", *more)
                yield Measured(axis.name, axis.config, size, "audit", *used)


def measure_curve() -> Iterator[Measured]:
    """Yield the cost of a small curve by its number of seeds."""
    for seeds in CURVE_SEEDS:
        root = tempfile.mkdtemp()
        try:
            config = str(CONFIGS / "curve_green.yaml")
            used = profile_command(
                "curve", config, "--jobs=1", f"--root={root}", f"--seeds={seeds}"
            )
            yield Measured("seeds of a curve", "curve_green", seeds, "curve", *used)
        finally:
            shutil.rmtree(root)


def read_rows() -> dict[tuple[str, str, int, str], Measured]:
    """Return all stored measurements by key."""
    stored = json.loads(ROWS.read_text()) if ROWS.exists() else []
    return {row.key: row for row in (Measured(**each) for each in stored)}


def store_row(row: Measured) -> None:
    """Add a measurement to the file, or replace the one of the same key."""
    known = read_rows() | {row.key: row}
    ROWS.write_text(json.dumps([asdict(each) for each in known.values()], indent=1) + "\n")


def fit_exponent(rows: Sequence[Measured]) -> float | None:
    """Return the slope of log cost over log size; None with fewer than two sizes that tell."""
    points = [(row.size, row.cpu_seconds - row.start_up) for row in rows]
    kept = [(math.log(size), math.log(cost)) for size, cost in points if cost >= LEAST_SECONDS]
    if len(kept) < 2:
        return None
    mean_x, mean_y = (sum(axis) / len(kept) for axis in zip(*kept, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in kept)
    return sum((x - mean_x) * (y - mean_y) for x, y in kept) / spread


def table_text(cells: Sequence[Sequence[str]]) -> str:
    """Return cells as a Markdown table, the first line as its head."""
    head, *lines = cells
    marked = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in marked)


def growth_tables(rows: Sequence[Measured]) -> tuple[str, str]:
    """Return the table of exponents and the table of all measurements."""
    groups: dict[tuple[str, str, str], list[Measured]] = {}
    for row in rows:
        groups.setdefault((row.axis, row.config, row.command), []).append(row)
    fits = [["axis", "config", "command", "sizes", "exponent", "faster than linear"]]
    for (axis, config, command), growth_rows in groups.items():
        growth_rows.sort(key=lambda row: row.size)
        exponent = fit_exponent(growth_rows)
        shown, is_fast = "too few sizes", "unknown"
        if exponent is not None:
            shown, is_fast = f"{exponent:.2f}", "YES" if exponent > FAST else "no"
        sizes = ", ".join(f"{row.size:,}" for row in growth_rows)
        fits.append([axis, config, command, sizes, shown, is_fast])
    costs = [list(HEAD)]
    for growth_rows in groups.values():
        costs += [_cells(row) for row in growth_rows]
    return table_text(fits), table_text(costs)


def _cells(row: Measured) -> list[str]:
    figures = [f"{row.cpu_seconds:.1f}", f"{row.start_up:.1f}", f"{row.peak_gib:.2f}"]
    return [row.axis, row.config, f"{row.size:,}", row.command, *figures]


def write_page(page: Path) -> None:
    """Replace both tables of the page; the words around them stay."""
    text = page.read_text()
    names = ("exponents", "costs")
    for name, table in zip(names, growth_tables(list(read_rows().values())), strict=True):
        before, begin, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- end of {name} -->")
        if not begin or not end:
            raise SystemExit(f"{page}: found no place for the table of {name}")
        text = f"{before}{begin}{table}\n{end}{after}"
    page.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    names = [*dict.fromkeys(axis.name for axis in AXES), "curve"]
    parser.add_argument("--axes", nargs="+", choices=names, default=names)
    parser.add_argument("--config", help="only the axes of this config")
    parser.add_argument("--largest", type=int, default=1_000_000, help="leave out larger sizes")
    parser.add_argument("--page", type=Path, help="write the tables into this page instead")
    asked = parser.parse_args()
    if asked.page:
        write_page(asked.page)
        return
    for axis in AXES:
        if axis.name in asked.axes and asked.config in (None, axis.config):
            for row in measure_axis(axis, asked.largest):
                store_row(row)
                print("  ".join(_cells(row)), flush=True)
    if "curve" in asked.axes and asked.config is None:
        for row in measure_curve():
            store_row(row)
            print("  ".join(_cells(row)), flush=True)


if __name__ == "__main__":
    main()
