"""The baselines of the papers' tables: test accuracy over seeds, ours beside the paper's.

    python benchmarks/baselines.py --rows gcn_dnc mlps_sc fedmlp_sc_i50 --seeds 20

Runs what is missing under --root (a run is named by its config's hash, so a second call continues
the first), and prints mean and 95 % interval (Student's t) in per cent. A seed redraws the features
(for subCora the subgraph: seeds for which there is none are passed over) and the initial weights.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from scipy.stats import t as student

from securefg import runner
from securefg.config import RunConfig, load_config
from securefg.errors import ConfigError
from securefg.run_folder import RunFolder

PAPER = {
    "appnp_dnc": "93.2 ± 0.92",
    "gcn_dnc": "95.2 ± 0.54",
    "gat_dnc": "93.3 ± 1.03",
    "graphsage_dnc": "70.2 ± 4.21",
    "appnp_subcora": "54.2 ± 3.69",
    "gcn_subcora": "51.9 ± 3.78",
    "gat_subcora": "47.9 ± 3.01",
    "graphsage_subcora": "47.0 ± 3.73",
    "fedmlp_sc": "61.0",
    "fedmlp_sc_i20": "61.0",
    "fedmlp_sc_i50": "70.0",
    "mlps_sc": "61.0 ± 0.60",
    "gcn_cora_centralized": "81.5",
    "gat_cora_centralized": "-",
}
FEDMLP_UPDATES = 2000


def configured(row: str, seed: int, root: Path, extra: list[str]) -> RunConfig:
    """The config of a row; I other than 10 is a change to FedMLP's."""
    name, _, steps = row.partition("_i") if row.startswith("fedmlp") else (row, "", "")
    fixed = [f"seed={seed}", f"output.root={root}", "output.transcript_every=0"]
    if steps:
        rounds = FEDMLP_UPDATES // int(steps)
        fixed += [f"training.local_epochs={steps}", f"training.rounds={rounds}"]
    return load_config(Path(f"configs/{name}.yaml"), [*fixed, *extra])


def accuracy(config: RunConfig) -> float:
    """The test accuracy of a run in per cent; runs or resumes it if need be."""
    path = config.output.root / f"{config.name}-s{config.seed}-{config.hash}"
    if not path.exists():
        folder = runner.start(config).folder
    else:
        folder = RunFolder.open(path)
        folder = folder if folder.finished else runner.resume(folder).folder
    return 100 * float(folder.summary()["test_accuracy"])


def accuracies(row: str, seeds: int, root: Path, extra: list[str]) -> list[float]:
    found: list[float] = []
    for seed in range(20 * seeds):
        if len(found) < seeds:
            try:
                found.append(accuracy(configured(row, seed, root, extra)))
            except ConfigError as error:
                if not str(error).startswith("data.subcora: none of"):
                    raise
    return found


def cell(values: list[float]) -> str:
    """Mean and half the 95 % interval."""
    if len(values) < 2:
        return f"{statistics.mean(values):.1f}"
    factor = float(student.ppf(0.975, len(values) - 1))
    half = factor * statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):.1f} ± {half:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", nargs="+", default=list(PAPER), choices=list(PAPER))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--root", type=Path, default=Path("runs/baselines"))
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c")
    asked = parser.parse_args()
    print("| | ours | paper | seeds |\n|---|---|---|---|")
    for row in asked.rows:
        values = accuracies(row, asked.seeds, asked.root, asked.set)
        print(f"| {row} | {cell(values)} | {PAPER[row]} | {len(values)} |", flush=True)


if __name__ == "__main__":
    main()
