"""What protection costs a PyTorch job without graphs: accuracy and epsilon over sites and noise.

    .venv/bin/python benchmarks/peers/utility_sweep.py [--seeds 2] [--store]

FLARE's hello-pt network learns scikit-learn's digits (`hello_pt/model.py`) by federated averaging,
in one process. Either every site's gate noises its whole update, as SecurefgFilter and SiteGate do,
or every site trains under noise on single samples (`securefg.train_privately`). Both noises are
chosen for the same epsilon over all rounds: of a client for the gate, of a record for the training.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "hello_pt"), str(HERE.parents[1])]

from model import SimpleNetwork, load_part, score_network  # noqa: E402

import securefg  # noqa: E402
from securefg.foundation.units import plural  # noqa: E402
from securefg.site.gate import Gate, Update, open_home  # noqa: E402
from securefg.site.policy import POLICY_FILE, load_policy, write_policy  # noqa: E402

STORED = HERE / "sweep_figures.json"
CLIP, BATCH, PRIVATE_LR, EPOCHS = 1.0, 64, 0.5, 2
EPSILONS = (2.0, 8.0)
Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Cell:
    """One setting of the sweep; `unit` is protected with `epsilon` over all rounds."""

    sites: int
    rounds: int
    unit: str = "nothing"
    epsilon: float = 0.0

    @property
    def key(self) -> str:
        """Return the name of the stored figures."""
        return f"{self.sites} sites, {self.rounds} rounds, {self.unit} {self.epsilon:g}"

    def find_noise(self) -> float:
        """Return the standard deviation on every number that keeps the unit's epsilon."""
        if self.unit == "nothing":
            return 0.0
        records = len(load_part(0, self.sites)[1])
        plan: dict[str, Any] = {"nodes": records, "rounds": self.rounds, "clip": CLIP}
        if self.unit == "record":
            plan |= {"batch": min(BATCH, records), "steps": count_steps(records)}
        return securefg.find_noise(self.epsilon, unit=self.unit, **plan)  # type: ignore[arg-type]

    def play(self, seed: int, noise: float, folder: Path) -> float:
        """Train and return the accuracy on data that no site holds."""
        torch.manual_seed(seed)
        train = train_samples if self.unit == "record" else train_plainly
        parts = [load_part(site, self.sites) for site in range(self.sites)]
        network = SimpleNetwork()
        for _ in range(self.rounds):
            uploads = []
            for site, part in enumerate(parts):
                trained = train(copy.deepcopy(network), noise, *part)
                if self.unit == "client":
                    gate = open_gate(folder / f"site-{site}", noise)
                    trained = pass_gate(gate, network.state_dict(), trained)
                uploads.append(trained)
            mean = {name: torch.stack([u[name] for u in uploads]).mean(0) for name in uploads[0]}
            network.load_state_dict(mean)
        return score_network(network, self.sites)


def count_steps(records: int) -> int:
    """Return a site's private steps in a round."""
    return max(1, EPOCHS * records // BATCH)


def train_plainly(network: nn.Module, noise: float, samples: Tensor, labels: Tensor) -> Weights:
    """Train as hello-pt does, by SGD with momentum."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(labels)).split(16):
            optimizer.zero_grad()
            cross_entropy(network(samples[rows]), labels[rows]).backward()
            optimizer.step()
    return dict(network.state_dict())


def train_samples(network: nn.Module, noise: float, samples: Tensor, labels: Tensor) -> Weights:
    """Train under noise on single samples."""
    batch, steps = min(BATCH, len(labels)), count_steps(len(labels))
    securefg.train_privately(
        network, samples, labels, clip=CLIP, noise=noise, batch=batch, steps=steps, lr=PRIVATE_LR
    )
    return dict(network.state_dict())


def open_gate(home: Path, noise: float) -> Gate:
    """Return the gate of a site without budgets, since the sweep asks what noise costs."""
    if not home.is_dir():
        policy = load_policy(open_home(home))
        free = {"budget_total": None, "budget_per_month": None, "least_noise": 0.0}
        (home / POLICY_FILE).unlink()
        write_policy(home / POLICY_FILE, policy.model_copy(update=free))
    return Gate.of(home, CLIP, noise / (2 * CLIP), "replace_one")


def pass_gate(gate: Gate, base: Weights, trained: Weights) -> Weights:
    """Return the update that leaves the site."""
    return dict(gate.pass_on("sweep", base, lambda: Update(trained, is_change=False)))  # type: ignore[arg-type]


def measure_cell(cell: Cell, seeds: int) -> dict[str, Any]:
    """Return a cell's noise and accuracies."""
    noise, scores = cell.find_noise(), []
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as name:
            scores.append(round(cell.play(seed, noise, Path(name)), 3))
    return {**asdict(cell), "noise": noise, "accuracy": scores}


def table_text(stored: dict[str, dict[str, Any]]) -> str:
    """Return the stored figures as a table."""
    lines = [
        "| sites | rounds | protected | epsilon | noise | accuracy |",
        "|---|---|---|---|---|---|",
    ]
    for row in stored.values():
        mean = statistics.mean(row["accuracy"])
        epsilon, noise = (f"{row[name]:g}" if row[name] else "-" for name in ("epsilon", "noise"))
        place = f"| {row['sites']} | {row['rounds']} | {row['unit']} | {epsilon} | {noise} "
        lines.append(f"{place}| {mean:.3f} ({plural(len(row['accuracy']), 'seed')}) |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Accuracy beside epsilon of a job without graphs.")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--sites", type=int, nargs="+", default=[2, 10])
    parser.add_argument("--store", action="store_true", help="store the figures beside the script")
    asked = parser.parse_args()
    stored = json.loads(STORED.read_text()) if STORED.is_file() else {}
    for sites in asked.sites:
        cells = [Cell(sites, asked.rounds)]
        cells += [Cell(sites, asked.rounds, u, e) for u in ("client", "record") for e in EPSILONS]
        for cell in cells:
            stored[cell.key] = measure_cell(cell, asked.seeds)
            print(json.dumps(stored[cell.key]), flush=True)
            if asked.store:
                STORED.write_text(json.dumps(stored, indent=1) + "\n")
    print(table_text(stored))


if __name__ == "__main__":
    main()
