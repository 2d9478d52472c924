"""NVIDIA FLARE's own hello-pt, recorded and audited, then protected by SecurefgFilter.

    python benchmarks/peers/flare_hello_pt.py OUT [--app gnn] [--poc] [--budget 5]

The job is that of FLARE's hello-pt in the API of 2.9, in FLARE's simulator. scikit-learn's digits
take the place of CIFAR-10. With `--app gnn`, a job in the form of FLARE's GNN example trains
GraphSAGE on Cora. The simulator has no policies of sites, so the job brings the filters. With
`--poc`, a server and sites run as processes of their own, and the filter is in the sites' policy.
Figures go to OUT/figures.json and, with `--store`, into `flare_figures.json`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.recipe.sim_env import SimEnv

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from exchange_audit import audit_exchange  # noqa: E402
from flare_poc import Poc  # noqa: E402
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
class App:
    """A job's code: a folder with client.py and model.py.

    network  the class of the network in model.py
    audited  the class that reads samples alone, for the audit
    """

    folder: str
    network: str
    audited: str
    classes: int

    def load_model(self) -> Any:
        """Import the app's model.py, here and in all processes that start from here."""
        sys.path.insert(0, str(HERE / self.folder))
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        return importlib.import_module("model")


APPS = {
    "hello-pt": App("hello_pt", "SimpleNetwork", "SimpleNetwork", 10),
    "gnn": App("gnn_finance", "SAGE", "Alone", 7),
}


@dataclass(frozen=True)
class Job:
    """One run of an app: its folder, and whether the sites' filter is in it.

    budget   every site's total epsilon, where it is not the strict floor's
    control  the recording without the filter
    is_poc   a server and sites as processes of their own, or FLARE's simulator
    seconds  the limit of a run in processes
    """

    app: App
    model: Any
    out: Path
    sites: int
    rounds: int
    is_gated: bool
    budget: float | None
    control: Path | None
    is_poc: bool
    seconds: float

    @property
    def names(self) -> list[str]:
        """Return the sites' names as the simulator has them."""
        return [f"site-{number + 1}" for number in range(self.sites)]

    def run(self) -> dict[str, Any]:
        """Run, record, audit and return the figures."""
        self.out.mkdir(parents=True)
        is_done = self._run_sites() if self.is_poc else self._simulate()
        uploads = self._record()
        job_result = {"is_done": is_done, "accuracy": self._score(), "uploads": uploads}
        audited = audit_exchange(
            self.out / "exchange", f"model:{self.app.audited}", HERE / self.app.folder
        )
        return {**job_result, **self._read_books(), **audited}

    def _make_recipe(self) -> FedAvgRecipe:
        recipe = FedAvgRecipe(
            name=self.app.folder,
            model=getattr(self.model, self.app.network)(),
            min_clients=self.sites,
            num_rounds=self.rounds,
            train_script=str(HERE / self.app.folder / "client.py"),
            train_args=f"--sites {self.sites}",
        )
        recipe.add_server_output_filter(Seen(str(self.out / "seen")), tasks=["train"])
        recipe.add_server_input_filter(Seen(str(self.out / "seen")), tasks=["train"])
        return recipe

    def _run_sites(self) -> bool:
        """Run a server and sites as processes of their own. Return whether all rounds were done."""
        self._make_recipe().export(str(self.out / "jobs"))
        homes = {name: self.out / "sites" / name for name in self.names if self.is_gated}
        for home in homes.values():
            self._open_floor(home)
        poc = Poc(self.out, self.sites, homes, CLIP, NOISE)
        poc.run(self.out / "jobs" / self.app.folder, self._is_over, self.seconds)
        return self._has_all_uploads()

    def _is_over(self) -> bool:
        refused = [self.out / "sites" / name / "refusals.jsonl" for name in self.names]
        return self._has_all_uploads() or all(path.is_file() for path in refused)

    def _has_all_uploads(self) -> bool:
        return all(self._path(n, t).is_file() for n in self.names for t in range(self.rounds))

    def _simulate(self) -> bool:
        """Return whether FLARE calls the job a success."""
        recipe = self._make_recipe()
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
        words: dict[str, Any] = {
            "name": self.app.folder,
            "classes": self.app.classes,
            "control": self.control,
        }
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
            data = {site: self.model.load_part(site, self.sites) for site in range(self.sites)}
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
        net = getattr(self.model, self.app.network)()
        mean = {name: torch.tensor(np.mean([one[name] for one in last], 0)) for name in last[0]}
        net.load_state_dict(mean)
        return round(self.model.score_network(net, self.sites), 3)

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


def run_once(job: Job) -> dict[str, Any]:
    """Run a job and keep its figures beside its folder. Return those of an earlier call."""
    kept = job.out.with_suffix(".json")
    if not kept.is_file():
        found = job.run()
        kept.write_text(json.dumps(found, indent=1) + "\n")
    read: dict[str, Any] = json.loads(kept.read_text())
    return read


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="FLARE's hello-pt, recorded and protected.")
    parser.add_argument("out", type=Path, help="a new folder, or that of --open-only")
    parser.add_argument("--app", choices=list(APPS), default="hello-pt")
    parser.add_argument("--poc", action="store_true", help="processes instead of the simulator")
    parser.add_argument("--seconds", type=float, default=400, help="the limit of a run of --poc")
    parser.add_argument("--sites", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, help="a site's total epsilon; none: the floor's")
    parser.add_argument("--open-only", action="store_true", help="run the gated half later")
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
    app = APPS[asked.app]
    plain = Job(
        app=app,
        model=app.load_model(),
        out=out / "open",
        sites=asked.sites,
        rounds=asked.rounds,
        is_gated=False,
        budget=None,
        control=None,
        is_poc=asked.poc,
        seconds=asked.seconds,
    )
    figures["open"] = run_once(plain)
    if asked.open_only:
        return
    control = out / "open" / "exchange"
    gated = replace(plain, out=out / "gated", is_gated=True, budget=asked.budget, control=control)
    figures["gated"] = run_once(gated)
    text = json.dumps(figures, indent=1) + "\n"
    (out / "figures.json").write_text(text)
    print(text)
    if asked.store:
        stored = json.loads(STORED.read_text()) if STORED.is_file() else {}
        mode = "POC, " if asked.poc else ""
        stored[f"{asked.app}, {mode}{asked.sites} sites, {asked.rounds} rounds"] = figures
        STORED.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
