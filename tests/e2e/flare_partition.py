"""Cuts one of four real sites off the network in the middle of a masked run, and mends it again.

    python tests/e2e/flare_partition.py FOLDER [CUTS] [SEED]

The site reaches the server through a forwarder here, which for a while swallows nothing and passes
nothing on, as a cut line does: no connection is closed. Cuts come at random moments. The run must
go on without the site and with it again afterwards; exits 1 where it does not, or where a single
upload is exposed.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from securefg.flare import local
from securefg.flare.kits import Kits, Plan, provision_kits
from securefg.flare.local import LocalProcesses
from securefg.runs.assembly import prepare
from securefg.runs.folder import RunFolder
from securefg.runs.observing import Silent
from tests.e2e.flare_line import Line
from tests.small import config

SITE, CUT_SECONDS, ROUNDS_PER_CUT = "site-2", 8.0, 60
SHARES = "partition.shares=[0.5, 0.6, 0.7, 0.8, 0.9]"
MASKED = "privacy.secure_aggregation={min_holders: 1}"


def main(root: Path, cuts: int, seed: int) -> int:
    lines: list[Line] = []

    def provision_with_a_line(folder: Path, plan: Plan) -> Kits:
        kits = provision_kits(folder, plan)
        lines.append(Line(plan.port))
        lines[0].put_before(kits, SITE)
        return kits

    local.provision_kits = provision_with_a_line
    rounds = f"training.rounds={ROUNDS_PER_CUT * (cuts + 1)}"
    more = (MASKED, SHARES, rounds, "engine.name=flare", "engine.patience=3")
    folder = RunFolder.create(config(root, *more), lambda path: None)
    draws, events = random.Random(seed), dict[str, float]()
    done: list[tuple[int, int]] = []

    def meddle(processes: LocalProcesses) -> None:
        now, metrics = time.monotonic(), folder.metrics()
        if not metrics or len(done) == cuts:
            return
        if "heal" in events:
            if now > events["heal"]:
                lines[0].cut.clear()
                done.append((int(events.pop("round")), len(metrics)))
                events.clear()
        elif "cut" not in events:
            events["cut"] = now + draws.uniform(1, 4)
        elif now > events["cut"]:
            lines[0].cut.set()
            events.update(heal=now + CUT_SECONDS, round=len(metrics))

    outcome = local.run_locally(prepare(folder.config()), folder, Silent(), meddle)
    assert outcome.summary is not None
    drops = [line["dropped"] for line in folder.metrics()]
    at_the_end = drops[-1] - drops[-10]
    exposed = outcome.summary.recovered_by_algebra.contributions_recoverable
    for before, after in done:
        print(
            f"cut after round {before}, mended after round {after}: {after - before} rounds without"
        )
    print(
        f"{outcome.summary.rounds} rounds, {drops[-1]} drop-outs, "
        f"{at_the_end} of them in the last ten rounds, "
        f"{outcome.summary.aborted_rounds} aborted, {exposed} uploads exposed"
    )
    went_on = all(after > before for before, after in done) and drops[-1] > 0
    return int(len(done) < cuts or not went_on or at_the_end > 0 or exposed > 0)


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[2:]]
    sys.exit(main(Path(sys.argv[1]), *(numbers + [2, 0][len(numbers) :])))
