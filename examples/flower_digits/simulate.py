"""Run the app in Flower's simulation, with or without the sites' gate, and prepare the audit.

    python examples/flower_digits/simulate.py OUT --open                     as Flower has it
    python examples/flower_digits/simulate.py OUT --noise 2.5 --control ...  with the gate

OUT/exchange is what the server saw, for `securefg audit`. OUT/sites has every site's floor, books
and refusals.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from digits_app.task import SITES, load_site  # noqa: E402

from securefg.flower import add_truth, open_site  # noqa: E402
from securefg.foundation.errors import ConfigError  # noqa: E402
from securefg.privacy.calculator import compute_epsilon  # noqa: E402
from securefg.site.books import SiteBooks  # noqa: E402

DELTA = 1e-5


def prepare(out: Path, asked: argparse.Namespace) -> None:
    """Make the sites' folders, and tell both apps where things are."""
    record: dict[str, object] = {}
    for site in range(asked.sites):
        home = out / "sites" / str(site)
        home.mkdir(parents=True)
        if not asked.open:
            open_site(home, asked.clip, asked.noise)
    if not asked.open:
        sigma = 2 * asked.clip * (asked.claimed_noise or asked.noise)
        epsilon = (
            asked.claimed_epsilon
            or compute_epsilon(
                nodes=100, rounds=asked.rounds, clip=asked.clip, noise=sigma, delta=DELTA
            )[0].epsilon
        )
        record["claim"] = {
            "epsilon": epsilon,
            "delta": DELTA,
            "clip_l2": asked.clip,
            "sigma": sigma,
        }
        if asked.control is not None:
            record["control"] = str(asked.control.resolve())
    os.environ |= {
        "DIGITS_OUT": str(out),
        "DIGITS_RECORD": json.dumps(record),
        "DIGITS_ROUNDS": str(asked.rounds),
        "DIGITS_SITES": str(asked.sites),
        "SECUREFG_SITE_HOME": str(out / "sites" / "{partition}"),
        "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)]),
        "RAY_DISABLE_IMPORT_WARNING": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "FLWR_TELEMETRY_ENABLED": "0",
    }
    if asked.open:
        os.environ["DIGITS_OPEN"] = "1"


def simulate(sites: int) -> None:
    """Run both apps in Flower's simulation engine."""
    from digits_app.client_app import app as client_app
    from digits_app.server_app import app as server_app
    from flwr.simulation import run_simulation

    run_simulation(
        server_app,
        client_app,
        num_supernodes=sites,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )


def finish(out: Path, asked: argparse.Namespace) -> None:
    """Add every site's samples to the recording, and say what the run was worth."""
    for site in range(asked.sites):
        x, y = load_site(site)
        try:
            add_truth(out / "exchange", out / "sites" / str(site), x.numpy(), y.numpy())
        except ConfigError:
            print(f"site {site} uploaded nothing")
    scores = json.loads((out / "scores.json").read_text())
    last = scores[max(scores, key=int)]
    print(f"accuracy {last['accuracy']:.3f} after {len(scores) - 1} rounds")
    if not asked.open:
        books = [SiteBooks(out / "sites" / str(site)) for site in range(asked.sites)]
        spent = max(book.spent("client", DELTA, None).epsilon for book in books)
        print(f"{len(books[0].releases())} updates booked at site 0; epsilon {spent:.4g} at most")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A Flower app, recorded and gated.")
    parser.add_argument("out", type=Path, help="a new folder")
    parser.add_argument("--open", action="store_true", help="without the gate")
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--noise", type=float, default=2.5, help="noise multiplier of the sites")
    parser.add_argument("--claimed-noise", type=float, help="another multiplier in the claim")
    parser.add_argument("--claimed-epsilon", type=float, help="another epsilon in the claim")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sites", type=int, default=SITES)
    parser.add_argument("--control", type=Path, help="the exchange without the gate")
    asked = parser.parse_args(arguments)
    out = asked.out.resolve()
    prepare(out, asked)
    simulate(asked.sites)
    finish(out, asked)


if __name__ == "__main__":
    main()
