"""One epsilon, two mechanisms: noise on every upload, and noise that only the sum carries.

    python benchmarks/distributed_noise.py --seeds 5

Cora over 100 small clients (configs/fedgl_cora_distributed.yaml): plain, masked, local Gaussian
noise, and distributed discrete noise under masks, both at epsilon 8 per client. Then FedGL with the
paper's six clients, plain and masked, each client counting alike: the masks change nothing but the
last bits. Prints Markdown.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from securefg.runs import runner
from securefg.settings.config import load_config

MANY = "configs/fedgl_cora_distributed.yaml"
SIX = "configs/fedgl_cora.yaml"
ALIKE = ["training.rounds=60", "method.weighting=clients"]
MASKED_SIX = "privacy={secure_aggregation: {min_holders: 1}}"
LOCAL = (
    "privacy={mechanism: local_gaussian, target_epsilon: 8, unit: client, adjacency: zero_out, "
    "clip_l2: 3}"
)
VARIANTS: dict[str, tuple[str, list[str]]] = {
    "100 clients, plain": (MANY, ["privacy={}"]),
    "100 clients, masked": (MANY, ["privacy={secure_aggregation: {dropout: 0.1}}"]),
    "100 clients, local_gaussian": (MANY, [LOCAL]),
    "100 clients, distributed_discrete": (MANY, []),
    "FedGL, 6 clients, plain": (SIX, ALIKE),
    "FedGL, 6 clients, masked": (SIX, [*ALIKE, MASKED_SIX]),
    "FedGL, 6 clients, masked, 2 holders": (
        SIX,
        [*ALIKE, "privacy={secure_aggregation: {}}"],
    ),
}


def accuracy(config: str, overrides: list[str], seed: int) -> tuple[float, str]:
    with tempfile.TemporaryDirectory() as root:
        fixed = [f"seed={seed}", f"output.root={root}", "output.transcript_every=0"]
        summary = runner.start(load_config(Path(config), [*overrides, *fixed])).summary
    assert summary is not None
    epsilon = summary.epsilon["client"].epsilon
    return summary.test_accuracy, "infinite" if epsilon is None else f"{epsilon:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="variants whose name has this in it")
    asked = parser.parse_args()
    print("| variant | test accuracy | epsilon per client |\n|---|---|---|")
    for name, (config, overrides) in VARIANTS.items():
        if asked.only not in name:
            continue
        results = [accuracy(config, overrides, seed) for seed in range(asked.seeds)]
        values = [value for value, _ in results]
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        print(
            f"| {name} | {statistics.mean(values):.4f} ± {spread:.4f} | {results[0][1]} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
