"""The released model with the best score so far, and how long nothing has improved."""

from __future__ import annotations

import math
from dataclasses import dataclass

from securefg.federation.evaluation import Scores
from securefg.foundation.errors import (
    ConfigError,
)
from securefg.runs.checkpoint import (
    Progress,
)
from securefg.settings.execution import TrainingSettings


@dataclass
class Best:
    """A released model with the best validation score so far, and when anything last improved."""

    round: int = 0
    score: float = -math.inf
    kind: str = ""
    body: bytes = b""
    loss: float = math.inf
    improved: int = 0

    @classmethod
    def of(cls, progress: Progress, body: bytes) -> Best:
        """Return the best model as a checkpoint has it."""
        score = -math.inf if progress.best_score is None else progress.best_score
        loss = math.inf if progress.best_loss is None else progress.best_loss
        return cls(progress.best_round, score, progress.best_kind, body, loss, progress.improved)

    def keep(
        self, number: int, scores: Scores | None, kind: str, body: bytes, training: TrainingSettings
    ) -> None:
        """Keep the model if it is the best. Patience starts anew at every improvement. If nobody
        tells scores, the last model stays."""
        score = _monitored_score(scores, training) if scores is not None else 0.0
        if score > self.score or scores is None or training.final_model == "last":
            self.round, self.score, self.kind, self.body = number, score, kind, body
            self.improved = number
        if scores is not None and scores.val_loss < self.loss:
            self.loss = scores.val_loss
            self.improved = number if training.monitor == "either" else self.improved

    def is_stale(self, number: int, patience: int | None) -> bool:
        """Return whether the score has not improved for more than `patience` rounds."""
        return patience is not None and number - self.improved > patience and number > 1


def _monitored_score(scores: Scores, training: TrainingSettings) -> float:
    monitor = training.monitor
    if monitor == "val_loss":
        return -scores.val_loss
    if monitor in ("either", "val_accuracy"):
        return scores.val_accuracy
    figures = scores.val.figures() if scores.val is not None else {}
    monitored_score = figures.get(monitor.removeprefix("val_"))
    if monitored_score is None and "training.monitor" in training.chosen:  # a rule asks for no more
        return scores.val_accuracy
    if monitored_score is None:
        known = ", ".join(["val_accuracy", "val_loss", *(f"val_{n}" for n in figures)])
        raise ConfigError(
            f"training.monitor: {monitor} is not known of this run's validation nodes; allowed: "
            f"{known.replace(', val_majority', '')}"
        )
    return monitored_score
