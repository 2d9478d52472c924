"""NVIDIA FLARE's FedAvg on numpy in its simulator, with or without SecurefgFilter at the sites.

    python examples/nvflare_filter/job.py OUT                 as FLARE has it
    python examples/nvflare_filter/job.py OUT --noise 2.5     with the filter

OUT/exchange is what the server saw, for `securefg audit`; OUT/sites has every site's floor, books
and refusals. FLARE's simulator has no policies of sites, so the job brings the filters here.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import numpy as np
from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe
from nvflare.recipe.sim_env import SimEnv

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "fedavg_numpy")]

from exchange import (  # noqa: E402
    CLIENTS,
    CLIP,
    DELTA,
    HIDDEN,
    ROUNDS,
    SHAPES,
    describe,
    draw_data,
)
from recorder import Recorder  # noqa: E402

from securefg.flare.filters import ModelReceived, SecurefgFilter  # noqa: E402
from securefg.protocol.exchange import Claim, ExchangeWriter  # noqa: E402
from securefg.site.books import SiteBooks  # noqa: E402
from securefg.site.gate import open_home  # noqa: E402

NAME = "hello-numpy"
SITES = [f"site-{number + 1}" for number in range(CLIENTS + 1)]


def plain_job(sites: int, rounds: int) -> NumpyFedAvgRecipe:
    """FLARE's own; it knows nothing of securefg."""
    weights = np.random.default_rng(1).normal(size=sum(int(np.prod(s)) for s in SHAPES.values()))
    return NumpyFedAvgRecipe(
        name=NAME,
        model=(weights / np.sqrt(HIDDEN)).tolist(),
        min_clients=sites,
        num_rounds=rounds,
        train_script=str(HERE / "train.py"),
    )


def simulate(out: Path, homes: Path, noise_multiplier: float | None, rounds: int) -> bool:
    """Run the job in a workspace of its own; whether FLARE calls it a success."""
    recipe = plain_job(len(SITES), rounds)
    recipe.add_server_output_filter(Recorder(str(out / "seen")), tasks=["train"])
    recipe.add_server_input_filter(Recorder(str(out / "seen")), tasks=["train"])
    if noise_multiplier is not None:
        for home in (homes / site for site in SITES):
            if not home.exists():
                open_home(home)
        gate = SecurefgFilter(str(homes / "{site}"), CLIP, noise_multiplier)
        recipe.add_client_input_filter(ModelReceived(), tasks=["train"])
        recipe.add_client_output_filter(gate, tasks=["train"])
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    try:
        recipe.execute(SimEnv(num_clients=len(SITES), workspace_root=str(out / "flare")))
    except RuntimeError as error:
        print(error)
        return False
    return True


def written_down(out: Path, claim: Claim | None, control: Path | None) -> int:
    """OUT/exchange from what the server saw; how many uploads there were."""
    told = describe(claim, control).model_copy(update={"name": NAME, "clients": len(SITES)})
    writer = ExchangeWriter(out / "exchange", told)
    rule = {"change": "plain" if claim is None else "local_gaussian"}
    uploads = 0
    for number in range(len(list((out / "seen").glob("sent-*.npy")))):
        model = np.load(out / "seen" / f"sent-{number}.npy")
        writer.sent(number + 1, "fedavg.Model", {"weights": model}, range(len(SITES)))
        for client, site in enumerate(SITES):
            path = out / "seen" / f"{site}-{number}.npy"
            if path.exists():
                arrays = {"change": np.load(path) - model}
                writer.received(number + 1, "fedavg.Update", arrays, client, rule)
                uploads += 1
    data = draw_data(np.random.default_rng(0))
    writer.truth({client: x for client, (x, _) in enumerate(data)})
    writer.close()
    return uploads


def claimed(homes: Path, noise_multiplier: float) -> Claim:
    """What the books of the site that spent most say, rounded up."""
    spent = max(SiteBooks(homes / site).spent("client", DELTA, None).epsilon for site in SITES)
    epsilon = float(np.ceil(spent * 100) / 100)
    return Claim(epsilon=epsilon, delta=DELTA, clip_l2=CLIP, sigma=2 * CLIP * noise_multiplier)


def refusals(homes: Path) -> list[str]:
    """Every reason that a site noted, once."""
    lines = [x for path in homes.glob("*/refusals.jsonl") for x in path.read_text().splitlines()]
    return sorted({json.loads(line)["reason"] for line in lines})


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="A FLARE job with and without SecurefgFilter.")
    parser.add_argument("out", type=Path, help="a new folder")
    parser.add_argument("--noise", type=float, default=None, help="noise multiplier; none: plain")
    parser.add_argument("--sites", type=Path, default=None, help="homes of sites that have books")
    parser.add_argument("--control", type=Path, default=None, help="the exchange without filter")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args(arguments)
    out = asked.out.resolve()
    homes = (asked.sites or out / "sites").resolve()
    done = simulate(out, homes, asked.noise, asked.rounds)
    for reason in refusals(homes):
        print(f"refused: {reason}")
    if not list((out / "seen").glob("site-*.npy")):
        print("no upload reached the server")
        return 1
    claim = None if asked.noise is None else claimed(homes, asked.noise)
    uploads = written_down(out, claim, asked.control)
    told = "no noise" if claim is None else f"epsilon {claim.epsilon:g} by the sites' books"
    print(f"{uploads} uploads reached the server; {told}")
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
