"""Watching a run: what it reports after every round, and to whom."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from securefg.runs.assembly import Setup


@dataclass(frozen=True)
class RoundReport:
    """A round, as the progress display and `metrics.jsonl` show it.

    `aborted` gives the reason where too few clients were left. The scores are then the last ones.
    """

    round: int
    train_loss: float
    val_loss: float
    val_accuracy: float
    test_accuracy: float
    epsilon: dict[str, float | None]
    bytes_up: int
    bytes_down: int
    dropped: int
    seconds: float
    aborted: str = ""
    extra: dict[str, float] = field(default_factory=dict)
    quality: dict[str, dict[str, float]] = field(default_factory=dict)


class Observer(Protocol):
    """An observer of a run. `stop_requested` is asked after every round."""

    def started(self, experiment: Setup, first_round: int) -> None:
        """Hear that a run starts at this round."""

    def round_done(self, report: RoundReport) -> None:
        """Hear the figures of a round."""

    def stop_requested(self) -> bool:
        """Return whether the run is to stop after this round."""


class Silent:
    """An observer that says nothing and never stops."""

    def started(self, experiment: Setup, first_round: int) -> None:
        """Ignore the start."""

    def round_done(self, report: RoundReport) -> None:
        """Ignore the round."""

    def stop_requested(self) -> bool:
        """Return False, because nobody asks for a stop."""
        return False


@dataclass(frozen=True)
class Several:
    """A group of observers as one. Any of them can ask for a stop."""

    observers: tuple[Observer, ...] = ()

    def started(self, experiment: Setup, first_round: int) -> None:
        """Tell every observer of the start."""
        for observer in self.observers:
            observer.started(experiment, first_round)

    def round_done(self, report: RoundReport) -> None:
        """Tell every observer of the round."""
        for observer in self.observers:
            observer.round_done(report)

    def stop_requested(self) -> bool:
        """Ask every observer. Return True if any of them wants a stop."""
        return True in [observer.stop_requested() for observer in self.observers]
