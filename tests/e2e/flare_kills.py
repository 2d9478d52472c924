"""Kills (or freezes) one of four real sites in a stage of secure aggregation, and compares.

    python tests/e2e/flare_kills.py FOLDER [kill|hang] [STAGE ...]      every stage, in round 2
    python tests/e2e/flare_kills.py FOLDER random NUMBER [SEED]         any stage, round and site

The run must go on, and end with the bits of a run in one process whose same client fell silent in
the same stage: the survivors' sum is exact. Prints a line per run; exits 1 where one differs.
"""

from __future__ import annotations

import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from securefg.flare import launch
from securefg.runs.execution import Outcome
from tests.e2e.dying import STAGES
from tests.small import config

SHARES = "partition.shares=[0.5, 0.6, 0.7, 0.8, 0.9]"  # the fourth site has two clients
MASKED = "privacy.secure_aggregation={min_holders: 1, malicious: true}"
ROUNDS, SITES_WITH_ONE_CLIENT = 4, 3


@dataclass(frozen=True)
class Death:
    """Which client goes, when and how."""

    stage: str
    how: str = "kill"
    in_round: int = 2
    client: int = 1


def outcome(folder: Path, death: Death, how: str, engine: str) -> Outcome:
    method = (
        f"method={{name: tests.e2e.dying, stage: {death.stage}, how: {how}, "
        f"client: {death.client}, in_round: {death.in_round}, pseudo_labels: false}}"
    )
    overrides = (method, SHARES, MASKED, f"engine.name={engine}", "engine.patience=4")
    return launch.start(config(folder / engine, *overrides))


def survives(folder: Path, death: Death) -> bool:
    here = outcome(folder, death, "raise", "inprocess")
    began = time.monotonic()
    apart = outcome(folder, death, death.how, "flare")
    assert here.summary is not None
    assert apart.summary is not None
    models = [(run.folder.path / "model.safetensors").read_bytes() for run in (here, apart)]
    recovered = apart.summary.recovered_by_algebra
    same = models[0] == models[1]
    print(
        f"{death.how} client {death.client} at {death.stage:9} of round {death.in_round}: "
        f"{'the same bits' if same else 'DIFFERS'}, "
        f"{apart.summary.rounds} rounds, {apart.summary.aborted_rounds} aborted, "
        f"{apart.summary.dropped} drop-outs, smallest cohort {recovered.smallest_cohort}, "
        f"{recovered.contributions_recoverable} uploads exposed, "
        f"run {apart.summary.seconds:.1f} s of {time.monotonic() - began:.1f}",
        flush=True,
    )
    return same and recovered.contributions_recoverable == 0


def drawn(number: int, seed: int) -> list[Death]:
    draws = random.Random(seed)
    return [
        Death(
            draws.choice(STAGES),
            draws.choice(("kill", "kill", "hang")),
            draws.randint(1, ROUNDS),
            draws.randrange(SITES_WITH_ONE_CLIENT),
        )
        for _ in range(number)
    ]


def main(folder: Path, words: list[str]) -> int:
    how = words[0] if words else "kill"
    if how == "random":
        deaths = drawn(int(words[1]), int(words[2]) if len(words) > 2 else 0)
    else:
        deaths = [Death(stage, how) for stage in (words[1:] or STAGES)]
    results = [survives(folder / str(i), death) for i, death in enumerate(deaths)]
    print(f"{sum(results)} of {len(results)} as they should be")
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
