"""NVIDIA FLARE's own hello-pt, recorded and audited, then protected by SecurefgFilter.

    python benchmarks/peers/flare_hello_pt.py OUT [--sites 2] [--rounds 3] [--budget 5]

The job is that of FLARE's hello-pt in the API of 2.9, in FLARE's simulator. scikit-learn's digits
take the place of CIFAR-10. The simulator has no policies of sites, so the job brings the filters.
Figures go to OUT/figures.json and, with `--store`, into `flare_figures.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.recipe.sim_env import SimEnv

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "hello_pt"), str(HERE.parents[1])]
os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)

from exchange_audit import audit_exchange  # noqa: E402
from model import SimpleNetwork, load_part, score_network  # noqa: E402
from seen import Seen  # noqa: E402

import securefg  # noqa: E402
from securefg.flare.filters import ModelReceived, SecurefgFilter  # noqa: E402
from securefg.privacy.calculator import compute_epsilon  # noqa: E402
from securefg.protocol.exchange import Claim  # noqa: E402
from securefg.site.books import SiteBooks  # noqa: E402
from securefg.site.gate import open_home  # noqa: E402
from securefg.site.policy import POLICY_FILE, Budget, load_policy, write_policy  # noqa: E402

STORED = HERE / "flare_figures.json"
CLIP, NOISE, DELTA = 1.0, 1.5, 1e-5


@dataclass(frozen=True)
class Job:
    """One run of hello-pt: its folder, and whether the sites' filter is in it.

    budget   every site's total epsilon, where it is not the strict floor's
    control  the recording without the filter
    """

    out: Path
    sites: int
    rounds: int
    is_gated: bool
    budget: float | None
    control: Path | None

    @property
    def names(self) -> list[str]:
        """Return the sites' names as the simulator has them."""
        return [f"site-{number + 1}" for number in range(self.sites)]

    def run(self) -> dict[str, Any]:
        """Run, record, audit and return the figures."""
        self.out.mkdir(parents=True)
        is_done = self._simulate()
        uploads = self._record()
        found = {"is_done": is_done, "accuracy": self._score(), "uploads": uploads}
        return {**found, **self._read_books(), **audit_exchange(self.out / "exchange")}

    def _simulate(self) -> bool:
        """Return whether FLARE calls the job a success."""
        recipe = FedAvgRecipe(
            name="hello-pt",
            model=SimpleNetwork(),
            min_clients=self.sites,
            num_rounds=self.rounds,
            train_script=str(HERE / "hello_pt" / "client.py"),
            train_args=f"--sites {self.sites}",
        )
        recipe.add_server_output_filter(Seen(str(self.out / "seen")), tasks=["train"])
        recipe.add_server_input_filter(Seen(str(self.out / "seen")), tasks=["train"])
        if self.is_gated:
            for name in self.names:
                self._open_floor(self.out / "sites" / name)
            gate = SecurefgFilter(str(self.out / "sites" / "{site}"), CLIP, NOISE)
            recipe.add_client_input_filter(ModelReceived(), tasks=["train"])
            recipe.add_client_output_filter(gate, tasks=["train"])
        try:
            recipe.execute(SimEnv(num_clients=self.sites, workspace_root=str(self.out / "flare")))
        except RuntimeError as error:
            print(error)
            return False
        return True

    def _open_floor(self, home: Path) -> None:
        floor = open_home(home)
        if self.budget is not None:
            lower = {"budget_total": Budget(epsilon=self.budget)}
            policy = load_policy(floor).model_copy(update=lower)
            (home / POLICY_FILE).unlink()
            write_policy(home / POLICY_FILE, policy)

    def _record(self) -> int:
        """Write the exchange from what the server saw. Return how many uploads there were."""
        seen, uploads = self.out / "seen", 0
        words: dict[str, Any] = {"name": "hello-pt", "classes": 10, "control": self.control}
        rule = "local_gaussian" if self.is_gated else ""
        if self.is_gated:
            words["claim"] = self._make_claim()
        with securefg.record(self.out / "exchange", **words) as recording:
            for number in range(len(list(seen.glob("sent-*.npz")))):
                sent = dict(np.load(seen / f"sent-{number}.npz"))
                recording.send(number + 1, sent, range(self.sites))
                for client, name in enumerate(self.names):
                    path = seen / f"{name}-{number}.npz"
                    if path.is_file():
                        recording.upload(client, number + 1, dict(np.load(path)), rule=rule)
                        uploads += 1
            data = {site: load_part(site, self.sites) for site in range(self.sites)}
            samples = {site: images.numpy() for site, (images, _) in data.items()}
            recording.truth(samples, {site: labels.numpy() for site, (_, labels) in data.items()})
        return uploads

    def _make_claim(self) -> Claim:
        sigma = 2 * CLIP * NOISE
        (found, *_) = compute_epsilon(
            nodes=100, rounds=self.rounds, clip=CLIP, noise=sigma, delta=DELTA
        )
        return Claim(epsilon=found.epsilon, delta=DELTA, clip_l2=CLIP, sigma=sigma)

    def _score(self) -> float:
        """Return the accuracy of the last model: the mean of the last round's uploads."""
        rounds = [
            [path for name in self.names if (path := self._path(name, number)).is_file()]
            for number in range(self.rounds)
        ]
        last = [dict(np.load(path)) for path in [one for one in rounds if one][-1]]
        net = SimpleNetwork()
        mean = {name: torch.tensor(np.mean([one[name] for one in last], 0)) for name in last[0]}
        net.load_state_dict(mean)
        return round(score_network(net, self.sites), 3)

    def _path(self, name: str, number: int) -> Path:
        return self.out / "seen" / f"{name}-{number}.npz"

    def _read_books(self) -> dict[str, Any]:
        """Return how much the sites booked, and why they refused."""
        if not self.is_gated:
            return {}
        books = [SiteBooks(self.out / "sites" / name) for name in self.names]
        spent = max(book.spent("client", DELTA, None).epsilon for book in books)
        reasons = {
            json.loads(line)["reason"]
            for book in books
            for path in book.home.glob("refusals.jsonl")
            for line in path.read_text().splitlines()
        }
        counts = sorted({len(book.releases()) for book in books})
        return {
            "epsilon_booked": round(spent, 3),
            "updates_booked": counts,
            "refused": sorted(reasons),
        }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="FLARE's hello-pt, recorded and protected.")
    parser.add_argument("out", type=Path, help="a new folder")
    parser.add_argument("--sites", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, help="a site's total epsilon; none: the floor's")
    parser.add_argument("--store", action="store_true", help="store the figures beside the script")
    asked = parser.parse_args(arguments)
    out = asked.out.resolve()
    figures: dict[str, Any] = {
        "nvflare": version("nvflare"),
        "sites": asked.sites,
        "rounds": asked.rounds,
        "clip": CLIP,
        "noise_multiplier": NOISE,
        "budget": asked.budget,
    }
    plain = Job(out / "open", asked.sites, asked.rounds, False, None, None)
    figures["open"] = plain.run()
    control = out / "open" / "exchange"
    gated = Job(out / "gated", asked.sites, asked.rounds, True, asked.budget, control)
    figures["gated"] = gated.run()
    text = json.dumps(figures, indent=1) + "\n"
    (out / "figures.json").write_text(text)
    print(text)
    if asked.store:
        stored = json.loads(STORED.read_text()) if STORED.is_file() else {}
        stored[f"hello-pt, {asked.sites} sites, {asked.rounds} rounds"] = figures
        STORED.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
