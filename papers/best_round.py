"""The scores of a training's best round, as a run keeps them."""

from __future__ import annotations

from collections.abc import Callable

from securefg.federation.evaluation import Scores
from securefg.runs.best import Best
from securefg.settings.execution import TrainingSettings


def best_scores(make_round: Callable[[int], Scores], training: TrainingSettings) -> Scores:
    """Train round by round until nothing gets better, and return the best round's scores."""
    best, kept = Best(), None
    for number in range(1, training.rounds + 1):
        scores = make_round(number)
        best.keep(number, scores, "", b"", training)
        kept = scores if kept is None or best.round == number else kept
        if best.is_stale(number, training.patience):
            break
    assert kept is not None
    return kept
