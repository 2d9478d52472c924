"""Flower's own PyTorch quickstart, recorded and audited, then protected.

    .venv-flower/bin/python benchmarks/peers/flower_quickstart.py OUT [--app sage] [--nodes 2]

The app is the one that `flwr new` wrote, downloaded from the package index. It is changed only by
a wrapper of the Grid and a client mod. CIFAR-10 is replaced by scikit-learn's digits (`stand_in`).
With `--app sage`, a GraphSAGE network on Cora takes the place of the app's task.py. With
`--nodes`, a SuperLink and that many SuperNodes run on loopback; otherwise Flower simulates ten.
Figures go to OUT/figures.json and, with `--store`, into `flower_figures.json`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "stand_in")]
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE / "stand_in"), str(HERE.parents[1])])

import flwr  # noqa: E402
from exchange_audit import audit_exchange  # noqa: E402
from flower_app import NAME, TEMPLATE_VERSION, add_mod, fetch_template, wrap_grid, write_app  # noqa: E402
from flower_link import Federation  # noqa: E402

from securefg.flower import add_truth, open_site  # noqa: E402
from securefg.foundation.errors import ConfigError  # noqa: E402
from securefg.privacy.calculator import compute_epsilon  # noqa: E402
from securefg.site.books import SiteBooks  # noqa: E402
from securefg.site.policy import POLICY_FILE, Budget, load_policy, write_policy  # noqa: E402

STORED = HERE / "flower_figures.json"
CLIP, NOISE, DELTA, SIMULATED = 1.0, 1.5, 1e-5, 10
CLASSES = {"cnn": 10, "sage": 7}
NETWORKS = {"cnn": f"{NAME}.task:Net", "sage": f"{NAME}.task:Alone"}


@dataclass(frozen=True)
class Trial:
    """One run of the app: its folder, and whether the sites' gate is in it.

    budget   every site's total epsilon, where it is not the strict floor's
    seconds  the run's limit, after which all its processes are ended
    """

    out: Path
    kind: str
    sites: int
    rounds: int
    is_gated: bool
    budget: float | None
    seconds: float

    @property
    def homes(self) -> Path:
        """Return the folder with a folder of every site."""
        return self.out / "sites"

    def prepare(self, control: Path | None) -> Path:
        """Write the app with its wrapper and mod, and make the sites' folders. Return the app."""
        app = self.out / "app"
        templates = fetch_template(self.out.parent)
        write_app(app, templates, HERE / "sage_task.py" if self.kind == "sage" else None)
        words = f"classes={CLASSES[self.kind]}"
        if self.is_gated:
            words += f", claim={self._claim()}, control={str(control)!r}"
        edits = wrap_grid(self.out / "exchange", words)
        for edit in [*edits, *add_mod("SiteGate" if self.is_gated else "SiteNote")]:
            edit.apply(app)
        for site in range(self.sites):
            home = self.homes / str(site)
            home.mkdir(parents=True)
            if self.is_gated:
                open_site(home, CLIP, NOISE)
                self._lower_budget(home / POLICY_FILE)
        return app

    def _lower_budget(self, floor: Path) -> None:
        if self.budget is not None:
            lower = {"budget_total": Budget(epsilon=self.budget)}
            policy = load_policy(floor).model_copy(update=lower)
            floor.unlink()
            write_policy(floor, policy)

    def _claim(self) -> str:
        """Return the claim of all rounds as Python text."""
        sigma = 2 * CLIP * NOISE
        told = compute_epsilon(nodes=100, rounds=self.rounds, clip=CLIP, noise=sigma, delta=DELTA)
        return f"Claim(epsilon={told[0].epsilon!r}, delta={DELTA}, clip_l2={CLIP}, sigma={sigma})"

    def run(self, is_simulated: bool, control: Path | None) -> dict[str, Any]:
        """Run, audit and return the figures."""
        app = self.prepare(control)
        where = Federation(self.homes, self.sites, is_simulated)
        settings = f"num-server-rounds={self.rounds} fraction-train=1.0"
        seconds = where.run(app, self.out, settings, self.seconds)
        task = read_task(app)
        self.add_truth(task)
        found = {"seconds": round(seconds, 1), "accuracy": self.score(task)}
        return {
            **found,
            **self.read_books(),
            **audit_exchange(self.out / "exchange", NETWORKS[self.kind], app),
        }

    def add_truth(self, task: Any) -> None:
        """Add every site's training data to the recording."""
        for site in range(self.sites):
            samples, labels = read_samples(task.load_data(site, self.sites)[0])
            try:
                add_truth(self.out / "exchange", self.homes / str(site), samples, labels)
            except ConfigError as error:
                print(error)

    def score(self, task: Any) -> float:
        """Return the saved model's accuracy on data that no site holds, by the app's own test."""
        net = task.Net()
        net.load_state_dict(torch.load(self.out / "final_model.pt"))
        if self.kind == "sage":
            held_out = task.load_held_out()
        else:
            from flwr_datasets import load_held_out

            rows = load_held_out().with_transform(task.apply_transforms)
            held_out = torch.utils.data.DataLoader(rows, batch_size=32)
        _, accuracy = task.test(net, held_out, torch.device("cpu"))
        return round(float(accuracy), 3)

    def read_books(self) -> dict[str, Any]:
        """Return how much the sites booked, and the rounds in which something was sent."""
        if not self.is_gated:
            return {}
        books = [SiteBooks(self.homes / str(site)) for site in range(self.sites)]
        spent = max(book.spent("client", DELTA, None).epsilon for book in books)
        counts = {len(book.releases()) for book in books}
        reasons = {
            json.loads(line)["reason"]
            for book in books
            for path in book.home.glob("refusals.jsonl")
            for line in path.read_text().splitlines()
        }
        booked = {"epsilon_booked": round(spent, 3), "updates_booked": sorted(counts)}
        return {**booked, "refused": sorted(reasons)}


def read_task(app: Path) -> Any:
    """Import the app's own task.py anew."""
    for name in [name for name in sys.modules if name.split(".")[0] == NAME]:
        del sys.modules[name]
    sys.path.insert(0, str(app))
    try:
        return importlib.import_module(f"{NAME}.task")
    finally:
        sys.path.remove(str(app))


def read_samples(loader: Any) -> tuple[Any, Any]:
    """Return a site's training samples and labels."""
    if hasattr(loader, "graph"):
        return loader.graph.x[loader.dataset].numpy(), loader.graph.y[loader.dataset].numpy()
    rows = [loader.dataset[row] for row in range(len(loader.dataset))]
    return np.stack([row["img"].numpy() for row in rows]), np.array([r["label"] for r in rows])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Flower's quickstart, recorded and protected.")
    parser.add_argument("out", type=Path, help="a new folder, or that of --open-only")
    parser.add_argument("--app", choices=list(CLASSES), default="cnn")
    parser.add_argument("--nodes", type=int, help="real SuperNodes instead of the simulation")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--budget", type=float, help="a site's total epsilon; none: the floor's")
    parser.add_argument("--seconds", type=float, default=900, help="the limit of one run")
    parser.add_argument("--open-only", action="store_true", help="run the gated half later")
    parser.add_argument("--store", action="store_true", help="store the figures beside the script")
    asked = parser.parse_args(arguments)
    # Ended from outside, the script still ends its processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    out = asked.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    sites, is_simulated = asked.nodes or SIMULATED, asked.nodes is None
    figures: dict[str, Any] = {
        "flwr": flwr.__version__,
        "template": TEMPLATE_VERSION,
        "sites": sites,
        "rounds": asked.rounds,
        "clip": CLIP,
        "noise_multiplier": NOISE,
        "budget": asked.budget,
    }
    trial: Callable[[str, bool], Trial] = lambda name, gated: Trial(  # noqa: E731
        out / name, asked.app, sites, asked.rounds, gated, asked.budget, asked.seconds
    )
    control = out / "open" / "exchange"
    for name, is_gated in (("open", False), ("gated", True)):
        kept = out / f"{name}.json"
        if not kept.is_file():
            run = trial(name, is_gated).run(is_simulated, control if is_gated else None)
            kept.write_text(json.dumps(run, indent=1) + "\n")
        figures[name] = json.loads(kept.read_text())
        print(json.dumps(figures[name], indent=1))
        if asked.open_only:
            return
    (out / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    if asked.store:
        stored = json.loads(STORED.read_text()) if STORED.is_file() else {}
        where = "simulated" if is_simulated else "SuperNodes"
        stored[f"{asked.app}, {where}, {asked.rounds} rounds"] = figures
        STORED.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
