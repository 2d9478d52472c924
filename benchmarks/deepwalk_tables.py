"""PPFL-GNN's Tables 1 and 2: micro-F1 per client, and GLOBAL, the sum over clients of FED - LOC.

    python benchmarks/deepwalk_tables.py deepwalk --data citeseer --seeds 0 1 2
    python benchmarks/deepwalk_tables.py gat --data cora --seeds 0

LOC is there twice: trained once, as the paper has it, and for as long as FED. Finished runs are
found again below --root; every line is printed as soon as it is there.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from securefg import runner
from securefg.config import load_config
from securefg.run_folder import RunFolder

BEST = ("method.start=shared", "method.share=model", "method.schedule=run")
LOCAL = ("method.exchange=false", "method.schedule=run")
DEGREE = ("method.aggregation=degree",)
REFERENCE = ("method.alignment=reference",)
DEEPWALK = {
    "LOC equal": LOCAL,
    "FED degree": (*BEST, *DEGREE),
    "LOC once": (*LOCAL, "training.rounds=1"),
    "FED degree, reference": (*BEST, *DEGREE, *REFERENCE),
    "FED mean": BEST,
    "FED mean, reference": (*BEST, *REFERENCE),
    "FED paper": (),
    "full": (*LOCAL, "merged=true"),
}
GAT = {
    "LOC equal": ("method.exchange=false",),
    "FED paper": (),
    "LOC once": ("method.exchange=false", "training.rounds=1"),
    "FED shared start": ("method.start=shared",),
    "FED reference": ("method.start=shared", *REFERENCE),
    "full": ("method.exchange=false", "merged=true"),
}


@dataclass(frozen=True)
class Cell:
    """Scores in %, clients by classifiers (MLP, SVC), and the last round's P@1."""

    scores: np.ndarray
    precision: float


def once(path: Path, overrides: list[str]) -> RunFolder:
    config = load_config(path, overrides)
    folder = config.output.root / f"{config.name}-s{config.seed}-{config.hash}"
    if folder.exists() and RunFolder.open(folder).finished:
        return RunFolder.open(folder)
    return runner.start(config, fresh=True).folder


def cell(path: Path, overrides: list[str], folds: int) -> Cell:
    scores, precisions = [], []
    for fold in range(folds):
        folder = once(path, [*overrides, f"data.split.fold={fold}"])
        local = folder.summary()["local_scores"]
        scores.append([[own["mlp_f1"], own["svc_f1"]] for own in local.values()])
        precisions.append(folder.metrics()[-1]["extra"].get("alignment_p1", float("nan")))
    return Cell(100 * np.mean(scores, axis=0), float(np.mean(precisions)))


def line(name: str, cells: list[Cell], locals_: dict[str, list[Cell]]) -> str:
    mean = np.mean([c.scores for c in cells], axis=0)
    parts = [name.ljust(22)]
    for column, classifier in enumerate(("MLP", "SVC")):
        parts.append(classifier + " " + " ".join(f"{s:.1f}" for s in mean[:, column]))
        for against, others in locals_.items():
            pairs = zip(cells, others, strict=True)
            gains = [(a.scores - b.scores)[:, column].sum() for a, b in pairs]
            parts.append(f"({np.mean(gains):+.1f} ± {np.std(gains):.1f} on {against})")
    return "  ".join([*parts, f"P@1 {np.mean([c.precision for c in cells]):.3f}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method", choices=["deepwalk", "gat"])
    parser.add_argument("--data", default="citeseer")
    parser.add_argument("--config", help="a config's stem, if not ppfl_<method>_<data>")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--folds", type=int, default=5, help="for gat: only the first so many")
    parser.add_argument("--only", nargs="+", help="variants, of those in this file")
    parser.add_argument("--root", type=Path, default=Path("runs"))
    parser.add_argument("--set", nargs="+", default=[], help="settings for all variants")
    args = parser.parse_args()
    variants = DEEPWALK if args.method == "deepwalk" else GAT
    path = Path(f"configs/{args.config or f'ppfl_{args.method}_{args.data}'}.yaml")
    found: dict[str, list[Cell]] = {}
    for name in args.only or variants:
        folds = (
            1 if args.method == "deepwalk" else args.folds
        )  # DeepWalk scores all folds of one run
        found[name] = [
            cell(
                path,
                [*variants[name], *args.set, f"seed={seed}", f"output.root={args.root}"],
                folds,
            )
            for seed in args.seeds
        ]
        against = {k: v for k, v in found.items() if k.startswith("LOC") and k != name}
        fed = name.startswith("FED")
        print(line(name, found[name], against if fed else {}), flush=True)


if __name__ == "__main__":
    main()
