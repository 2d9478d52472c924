"""Audits of mechanisms: how long they take, how close they come, and how often they flag in vain.

    python benchmarks/mechanism_audit.py --audits 200 --trials 10000
    python benchmarks/mechanism_audit.py --only sound --audits 200 --trials 1000

First the runs of two configs, audited as they are with 100,000 trials. Then sound mechanisms of
several kinds, and `two_sums` on a drawn network, at epsilon 0.5, 1, 2, 4 and 8: of so
many seeded audits in all, how many say VIOLATION at the default level, and what share of the claim
the textbook game shows (of `two_sums`, the game of a node in all releases). Prints Markdown.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from audits.guessed_noise import Repeatable
from audits.mechanisms.audit import audit_experiment, audit_releases
from audits.mechanisms.results import MechanismResult, failed_checks
from audits.uploads import open_channel
from securefg.federation.channel import Channel
from securefg.foundation.streams import derive_seed
from securefg.privacy.policy import Policy, make_policy
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.meanings import Other
from securefg.protocol.messages import Message, private
from securefg.runs.assembly import prepare
from securefg.settings.config import load_config
from securefg.settings.privacy import PrivacySettings

TWO_SUMS = Path("configs/private_made.yaml")
CONFIGS = ("configs/fedgl_cora_private.yaml", "configs/fedgl_cora_distributed.yaml")
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
MECHANISMS: dict[str, dict[str, Any]] = {
    "noise at each client": {"mechanism": "local_gaussian"},
    "noise at each client, zeroed out": {"mechanism": "local_gaussian", "adjacency": "zero_out"},
    "noise on every row": {"mechanism": "local_gaussian", "unit": "row"},
    "noise under masks": {
        "mechanism": "distributed_discrete",
        "adjacency": "zero_out",
        "secure_aggregation": {},
    },
}


class Sent(Message, kind="mechanism_audit.Sent"):
    some: Tensor = private("each", "numbers", means=Other())
    more: Tensor = private("each", "more numbers", means=Other(), rows="node")


class Summed(Message, kind="mechanism_audit.Summed"):
    some: Tensor = private("sum", "numbers", means=Other())
    more: Tensor = private("sum", "more numbers", means=Other(), rows="node")


SUMMED = [PlannedRelease(Summed, "some", 3, 4), PlannedRelease(Summed, "more", 3, 12, 3)]
PLANNED = [PlannedRelease(Sent, "some", 3, 4), PlannedRelease(Sent, "more", 3, 12, 3)]


def seeded(seed: int) -> Callable[[Policy], Channel]:
    """Noise that can be drawn again, from a seed per host that no audit tries."""
    hosts = iter(range(1_000_000))
    return lambda policy: open_channel(
        policy, Repeatable(derive_seed(seed, "benchmark", next(hosts)))
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
            bounds = (r.gdp, r.cp) if isinstance(r, MechanismResult) else (None, None)
            gdp, cp = (f"{b.epsilon:.3f}" if b else "" for b in bounds)
            print(
                f"| {Path(path).stem} | {r.field} | {r.check} | {r.unit} | {r.rounds} of "
                f"{r.planned} | {r.claimed:.3f} | {gdp} | {cp} | {r.verdict} |"
            )
        print(
            f"| {Path(path).stem} | {trials} trials: {wall:.1f} s, CPU {cpu:.1f} s | | | | | | | |"
        )


def sound(audits: int, trials: int, first_seed: int) -> None:
    """An equal number of audits for every mechanism and epsilon, each with a seed of its own."""
    each = -(-audits // ((len(MECHANISMS) + 1) * len(EPSILONS)))
    print("\n| mechanism | epsilon | audits | VIOLATION | canary shows, share of claim |")
    print("|---|---|---|---|---|")
    total, accused = 0, 0
    for name in (*MECHANISMS, "two_sums"):
        for epsilon in EPSILONS:
            policy, planned = _mechanism(name, epsilon)
            game = "moved" if name == "two_sums" else "canary"
            flagged, shares = 0, []
            first = first_seed + total
            for seed in range(first, first + each):  # no two audits draw the same
                results = audit_releases(policy, planned, seeded(seed), trials, seed)
                found = failed_checks(results)
                if found:
                    print(f"| {name} | {epsilon:g} | seed {seed} | {found} | |", flush=True)
                flagged += bool(found)
                shares += [
                    r.lower / r.claimed
                    for r in results
                    if isinstance(r, MechanismResult) and r.check == game
                ]
            total, accused = total + each, accused + flagged
            print(
                f"| {name} | {epsilon:g} | {each} | {flagged} | {np.mean(shares):.3f} |",
                flush=True,
            )
    print(f"| all | | {total} | {accused} | |")


def _mechanism(name: str, epsilon: float) -> tuple[Policy, Sequence[PlannedRelease]]:
    if name == "two_sums":
        x = prepare(load_config(TWO_SUMS, [f"privacy.target_epsilon={epsilon}"]))
        return x.policy, x.method.planned(x.config.method, x.config.training, x.public)
    privacy = MECHANISMS[name]
    planned = SUMMED if "secure_aggregation" in privacy else PLANNED
    settings = PrivacySettings.model_validate({**privacy, "target_epsilon": epsilon})
    return make_policy(settings, planned, 10), planned


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--audits", type=int, default=200)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--only", choices=("configs", "sound"))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.only != "sound":
        configs(100_000)
    if asked.only != "configs":
        sound(asked.audits, asked.trials, asked.first_seed)


if __name__ == "__main__":
    main()
