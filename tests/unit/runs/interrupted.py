"""Runs that stop after a few rounds, for tests of what is taken up again."""

from __future__ import annotations

from pathlib import Path

from securefg.runs import runner
from securefg.runs.folder import RunFolder
from securefg.runs.observing import RoundReport, Silent
from tests.small import config

WEIGHTS_ALONE = "method={name: fedgl, pseudo_labels: false, pseudo_graph: false, weighting: equal}"
NOISE = "privacy={mechanism: local_gaussian, noise_multiplier: 3}"
SEEDED = "privacy={mechanism: local_gaussian, noise_multiplier: 3, noise_rng: seeded}"


class StopAfter(Silent):
    """Asks for a stop after a round."""

    def __init__(self, last: int) -> None:
        self._last, self._now = last, 0

    def round_done(self, report: RoundReport) -> None:
        self._now = report.round

    def stop_requested(self) -> bool:
        return self._now >= self._last


class CrashAfter(Silent):
    """Ends a run at once after a round, without a checkpoint of it."""

    def __init__(self, last: int) -> None:
        self._last = last

    def round_done(self, report: RoundReport) -> None:
        if report.round >= self._last:
            raise KeyboardInterrupt


def interrupted(root: Path, *overrides: str, after: int = 5) -> RunFolder:
    """A run of eight rounds with checkpoints of rounds 2 and 4, ended after round `after`."""
    rounds = ("training.rounds=8", "output.checkpoint_every=2", WEIGHTS_ALONE)
    try:
        return runner.start(config(root, *rounds, *overrides), CrashAfter(after)).folder
    except KeyboardInterrupt:
        (path,) = root.glob("run-*")
        return RunFolder.open(path)
