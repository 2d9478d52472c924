"""One table: class years at Cornell at node epsilon 8, 4 and 1, and what two other promises reach.

    SECUREFG_DATA=... python benchmarks/private_table.py --root FOLDER [--seeds 5]

Runs that FOLDER already has are not made again; it holds data about people, so it belongs outside
the repository. Ours are runs through the channel with masks and discrete noise. `--config` runs
another shipped config over the same epsilons, `--epsilons` others.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from private_baselines import best_degree

from securefg.runs import runner
from securefg.runs.assembly import prepare
from securefg.runs.summary import Summary
from securefg.settings.config import load_config
from securefg.sweep.cache import find_run

CONFIGS = Path(__file__).parent.parent / "configs"
EPSILONS = (8.0, 4.0, 1.0)


def summary_of(name: str, root: Path, *changes: str) -> Summary:
    config = load_config(CONFIGS / f"{name}.yaml", [*changes, f"output.root={root}"])
    found = find_run(root, config.hash)
    if found is None or not found.finished:
        found = runner.start(config, fresh=True).folder
    return found.summary()


def ours(name: str, root: Path, epsilons: list[float], seeds: int) -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {"common": [], "at home": [], "test AUC": []}
    for epsilon in epsilons:
        made = [
            summary_of(name, root, f"privacy.target_epsilon={epsilon}", f"seed={seed}")
            for seed in range(seeds)
        ]
        lines["common"].append(told([s.test_accuracy for s in made]))
        lines["at home"].append(told([s.local_test_accuracy.pooled for s in made]))
        lines["test AUC"].append(told([s.test_scores.figures()["roc_auc"] for s in made]))
    return lines


def alone(name: str, root: Path, seeds: int) -> str:
    made = [summary_of(name, root, f"seed={seed}") for seed in range(seeds)]
    return told([s.test_accuracy for s in made])


def told(values: list[float]) -> str:
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1) if len(values) > 1 else 0:.3f}"


def baselines(seeds: int) -> dict[str, list[str]]:
    reached: dict[tuple[str, float], list[float]] = {}
    for seed in range(seeds):
        config = load_config(
            CONFIGS / "private_cornell5.yaml", ["centralised=true", "privacy={}", f"seed={seed}"]
        )
        graph = prepare(config).union
        for method in ("GAP-like", "ProGAP-like"):
            for epsilon in EPSILONS:
                found = best_degree(graph, method, epsilon, 6.5e-5, 100 + seed)
                reached.setdefault((method, epsilon), []).append(found)
    return {
        method: [told(reached[method, epsilon]) for epsilon in EPSILONS]
        for method in ("GAP-like", "ProGAP-like")
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--config", action="append", help="print this shipped config alone")
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(EPSILONS))
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.config:
        for name in given.config:
            for line, cells in ours(name, given.root, given.epsilons, given.seeds).items():
                print(f"| {name}, {line} | " + " | ".join(cells) + " |", flush=True)
        return
    print("| Cornell, class years | epsilon 8 | 4 | 1 |\n|---|---|---|---|")
    for method, cells in baselines(given.seeds).items():
        promise = "one owner, predictions covered"
        print(f"| {method}: {promise} | " + " | ".join(cells) + " |", flush=True)
    for name, words in (("cornell5", "4 silos"), ("cornell5_100", "100 silos")):
        for line, cells in ours(f"private_{name}", given.root, given.epsilons, given.seeds).items():
            print(f"| two sums, {words}, {line} | " + " | ".join(cells) + " |", flush=True)
        level = alone(f"alone_{name}", given.root, given.seeds)
        print(f"| {words}, each alone | {level} | {level} | {level} |", flush=True)


if __name__ == "__main__":
    main()
