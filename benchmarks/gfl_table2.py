"""GFL-APPNP's Table 2: every variant on every task, ours beside the paper's.

    python benchmarks/gfl_table2.py --rows dnc dnc_v1 dnc_v2 sc --seeds 20 --root runs/gfl_table2

Runs what is missing under --root (a run is named by its config's hash, so a second call continues
the first), and prints the table as Markdown: mean and 95 % interval of the test accuracy in per
cent, as the paper gives them. A seed redraws the features (for subCora the subgraph) and the
initial weights.
"""

from __future__ import annotations

import argparse
import math
import statistics
from pathlib import Path

from securefg import runner
from securefg.config import RunConfig, load_config
from securefg.run_folder import RunFolder

UPDATES = {"dnc": 3000, "subcora": 4000, "snc": 5000, "sc": 2000}
PAPER = {
    "dnc": "93.4 ± 0.99",
    "dnc_i1": "93.2 ± 0.92",
    "dnc_i20": "93.3 ± 0.94",
    "dnc_i50": "93.0 ± 0.96",
    "dnc_v1": "93.1 ± 0.83",
    "dnc_v2": "82.3 ± 2.09",
    "subcora": "54.1 ± 3.72",
    "subcora_i1": "54.2 ± 3.69",
    "subcora_i20": "54.3 ± 3.73",
    "subcora_i50": "54.0 ± 3.73",
    "subcora_v1": "54.0 ± 4.12",
    "subcora_v2": "47.3 ± 3.81",
    "snc": "92.4 ± 0.19",
    "snc_i1": "98.7 ± 0.26",
    "snc_i20": "92.5 ± 0.17",
    "snc_i50": "92.5 ± 0.17",
    "snc_v1": "99.2 ± 0.26",
    "snc_v2": "90.7 ± 0.28",
    "sc": "70.0 ± 0.36",
    "sc_i1": "70.0 ± 0.32",
    "sc_i20": "70.0 ± 0.30",
    "sc_i50": "70.2 ± 0.33",
    "sc_v1": "68.7 ± 0.42",
    "sc_v2": "69.0 ± 0.45",
}


def configured(row: str, seed: int, root: Path, extra: list[str]) -> RunConfig:
    """The config of a row; I other than 10 and V1 are changes to the task's main one."""
    task, _, variant = row.partition("_")
    fixed = [f"seed={seed}", f"output.root={root}", "output.transcript_every=0"]
    if variant.startswith("i"):
        steps = int(variant[1:])
        rounds = UPDATES[task] // steps
        fixed += [f"training.local_epochs={steps}", f"training.rounds={rounds}"]
    if variant == "v1":
        fixed.append("method.jacobian_noise=1")
    own = Path(f"configs/gfl_{row}.yaml")
    path = own if own.exists() else Path(f"configs/gfl_{task}.yaml")
    return load_config(path, [*fixed, "output.checkpoint_every=1000", *extra])


def accuracy(config: RunConfig) -> float:
    """The test accuracy of a run in per cent; runs or resumes it if need be."""
    path = config.output.root / f"{config.name}-s{config.seed}-{config.hash}"
    if not path.exists():
        folder = runner.start(config).folder
    else:
        folder = RunFolder.open(path)
        if not folder.finished:
            folder = runner.resume(folder).folder
    return 100 * float(folder.summary()["test_accuracy"])


def cell(values: list[float]) -> str:
    """Mean and half the 95 % interval."""
    spread = statistics.stdev(values) if len(values) > 1 else math.nan
    return f"{statistics.mean(values):.1f} ± {1.96 * spread / len(values) ** 0.5:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", nargs="+", default=list(PAPER), choices=list(PAPER))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--root", type=Path, default=Path("runs/gfl_table2"))
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c")
    asked = parser.parse_args()
    print("| | ours | paper |\n|---|---|---|")
    for row in asked.rows:
        values = [
            accuracy(configured(row, seed, asked.root, asked.set)) for seed in range(asked.seeds)
        ]
        print(f"| {row} | {cell(values)} | {PAPER[row]} |", flush=True)


if __name__ == "__main__":
    main()
