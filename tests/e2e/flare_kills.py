"""Kills (or freezes) one of four real sites in every stage of secure aggregation, and compares.

    python tests/e2e/flare_kills.py FOLDER [kill|hang] [STAGE ...]

The run must go on, and end with the bits of a run in one process whose same client fell silent in
the same stage: the survivors' sum is exact. Prints a line per stage; exits 1 where one differs.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from securefg import runner
from tests.e2e.dying import STAGES
from tests.small import config

SHARES = "partition.shares=[0.5, 0.6, 0.7, 0.8, 0.9]"
MASKED = "privacy.secure_aggregation={min_holders: 1, malicious: true}"


def outcome(folder: Path, stage: str, how: str, engine: str) -> runner.Outcome:
    method = f"method={{name: tests.e2e.dying, stage: {stage}, how: {how}, pseudo_labels: false}}"
    overrides = (method, SHARES, MASKED, f"engine.name={engine}", "engine.patience=4")
    return runner.start(config(folder / f"{stage}-{engine}", *overrides))


def main(folder: Path, how: str, stages: tuple[str, ...]) -> int:
    failed = 0
    for stage in stages:
        here = outcome(folder, stage, "raise", "inprocess")
        began = time.monotonic()
        apart = outcome(folder, stage, how, "flare")
        assert here.summary is not None
        assert apart.summary is not None
        models = [(run.folder.path / "model.safetensors").read_bytes() for run in (here, apart)]
        recovered = apart.summary["recovered_by_algebra"]
        same = models[0] == models[1]
        failed += not same or recovered["contributions_recoverable"] > 0
        print(
            f"{stage:13} {how}: {'the same bits' if same else 'DIFFERS'}, "
            f"{apart.summary['rounds']} rounds, {apart.summary['aborted_rounds']} aborted, "
            f"{apart.summary['dropped']} drop-outs, smallest cohort "
            f"{recovered['smallest_cohort']}, {recovered['contributions_recoverable']} uploads "
            f"exposed, run {apart.summary['seconds']:.1f} s of {time.monotonic() - began:.1f}",
            flush=True,
        )
    return int(failed > 0)


if __name__ == "__main__":
    chosen = tuple(sys.argv[3:]) or STAGES
    sys.exit(main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "kill", chosen))
