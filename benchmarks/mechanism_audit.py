"""Audits of mechanisms: how long they take, how close they come, and how often they flag in vain.

    python benchmarks/mechanism_audit.py --audits 200 --trials 10000

First the runs of two configs, audited as they are with 100,000 trials. Then sound mechanisms at
epsilon 0.5, 1, 2 and 8: of so many seeded audits at 95 %, how many say VIOLATION, and what share of
the claim the textbook game shows. Prints Markdown.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from scipy.stats import binom
from torch import Tensor

from audits.guesses import Claiming
from audits.mechanisms.audit import audit_experiment, audit_releases
from audits.mechanisms.results import violations
from audits.uploads import open_channel
from securefg.federation.channel import Channel
from securefg.foundation.streams import derive_seed
from securefg.privacy.policy import PlannedRelease, Policy, make_policy
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, private
from securefg.run.assembly import prepare
from securefg.settings.config import load_config
from securefg.settings.privacy import PrivacySettings

CONFIGS = ("configs/fedgl_cora_private.yaml", "configs/fedgl_cora_distributed.yaml")
EPSILONS = (0.5, 1.0, 2.0, 8.0)


class Sent(Message, kind="mechanism_audit.Sent"):
    some: Tensor = private("each", "numbers", means=Other())
    more: Tensor = private("each", "more numbers", means=Other(), rows="node")


PLANNED = [PlannedRelease(Sent, "some", 3, 4), PlannedRelease(Sent, "more", 3, 12, 3)]


def seeded(seed: int) -> Callable[[Policy], Channel]:
    """Noise that can be drawn again, from a seed per host that no audit tries."""
    hosts = iter(range(1_000_000))
    return lambda policy: open_channel(
        policy, Claiming(derive_seed(seed, "benchmark", next(hosts)))
    )


def configs(trials: int) -> None:
    print(
        "| config | field | check | unit | rounds | claimed | shown (GDP) | shown (CP) | verdict |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for path in CONFIGS:
        experiment = prepare(load_config(Path(path)))
        start = time.perf_counter(), time.process_time()
        results = audit_experiment(experiment, trials, 0)
        wall, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
        for r in results:
            gdp, cp = (f"{b.epsilon:.3f}" if b else "" for b in (r.gdp, r.cp))
            print(
                f"| {Path(path).stem} | {r.field} | {r.check} | {r.unit} | {r.rounds} of "
                f"{r.planned} | {r.claimed:.3f} | {gdp} | {cp} | {r.verdict} |"
            )
        print(
            f"| {Path(path).stem} | {trials} trials: {wall:.1f} s, CPU {cpu:.1f} s | | | | | | | |"
        )


def sound(audits: int, trials: int) -> None:
    allowed = int(binom.ppf(0.999, audits, 0.05))
    print(f"\n| epsilon | flagged of {audits} | allowed at 95 % | canary shows, share of claim |")
    print("|---|---|---|---|")
    for epsilon in EPSILONS:
        settings = PrivacySettings(mechanism="local_gaussian", target_epsilon=epsilon)
        policy = make_policy(settings, PLANNED, 10)
        flagged, shares = 0, []
        for seed in range(audits):
            results = audit_releases(policy, PLANNED, seeded(seed), trials, seed)
            flagged += bool(violations(results))
            shares += [r.lower / r.claimed for r in results if r.check == "canary"]
        print(f"| {epsilon:g} | {flagged} | {allowed} | {np.mean(shares):.3f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--audits", type=int, default=200)
    parser.add_argument("--trials", type=int, default=10_000)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    configs(100_000)
    sound(asked.audits, asked.trials)


if __name__ == "__main__":
    main()
