"""FedGL's Table 2: Centralized, Federated, both ablations and FedGL, ours beside the paper's.

    python benchmarks/fedgl_table2.py --data cora citeseer acm wiki --seeds 5 --root runs/table2

Runs what is missing under --root (a run is named by its config's hash, so a second call continues
the first), and prints the table as Markdown. A seed draws the partition, the weights and, for the
sets without a published split, nothing else: their split is fixed.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

from securefg import runner
from securefg.config import RunConfig, load_config
from securefg.run_folder import RunFolder

COLUMNS = {
    "Centralized": ["method={name: alone}", "merged=true", "training.local_epochs=1"],
    "Federated": ["method.pseudo_labels=false", "method.pseudo_graph=false"],
    "w/o graph": ["method.pseudo_graph=false"],
    "w/o labels": ["method.pseudo_labels=false"],
    "FedGL": [],
}
PAPER = {
    "cora": (0.811, 0.810, 0.828, 0.812, 0.830),
    "citeseer": (0.705, 0.676, 0.732, 0.676, 0.734),
    "acm": (0.848, 0.855, 0.892, 0.858, 0.891),
    "wiki": (0.619, 0.678, 0.689, 0.673, 0.691),
}


def configured(
    data: str, overrides: list[str], seed: int, root: Path, extra: tuple[str, ...] = ()
) -> RunConfig:
    fixed = [f"seed={seed}", f"output.root={root}", "output.transcript_every=0"]
    return load_config(Path(f"configs/fedgl_{data}.yaml"), [*overrides, *fixed, *extra])


def accuracy(config: RunConfig) -> float:
    """The test accuracy of a run; runs or resumes it if need be."""
    path = config.output.root / f"{config.name}-s{config.seed}-{config.hash}"
    if not path.exists():
        folder = runner.start(config).folder
    else:
        folder = RunFolder.open(path)
        if not folder.finished:
            folder = runner.resume(folder).folder
    return float(folder.summary()["test_accuracy"])


def cell(values: list[float], paper: float) -> str:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.3f} ± {spread:.3f} ({paper:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", nargs="+", default=list(PAPER), choices=list(PAPER))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--root", type=Path, default=Path("runs/table2"))
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c")
    asked = parser.parse_args()
    print("| ours (paper) | " + " | ".join(COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 1) + "|")
    for data in asked.data:
        cells = []
        for overrides, paper in zip(COLUMNS.values(), PAPER[data], strict=True):
            seeds = range(asked.seeds)
            extra = tuple(asked.set)
            configs = [configured(data, overrides, seed, asked.root, extra) for seed in seeds]
            cells.append(cell([accuracy(config) for config in configs], paper))
        print(f"| {data} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
