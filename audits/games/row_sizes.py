"""How many words does a user have? Found means: the very number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack
from attacks.questions import RowSizes
from audits.games.base import OutcomeGame, choose, plays
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

MANY_TARGETS = 500


@plays(RowSizes)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> OutcomeGame:
    """Prior: the most frequent number among all users."""
    features = truth.features()
    if not np.isin(features[:50], (0, 1)).all():
        raise CannotAttack("features are not 0 and 1: a user has no number of words")
    sizes = (features != 0).sum(-1).astype(np.float64)
    others = np.setdiff1d(np.arange(len(sizes)), sorted(adversary.clients))
    wanted = choose(others, MANY_TARGETS, rng)
    values, counts = np.unique(sizes, return_counts=True)
    return OutcomeGame(
        question=RowSizes(ids=wanted),
        metric="share of users whose number of words is found",
        unit="row",
        truth=sizes[wanted],
        outcome=is_the_number,
        prior_guess=np.full(len(wanted), values[counts.argmax()]),
    )


def is_the_number(guess: Array, truth: NDArray[np.float64]) -> Array:
    return (np.abs(guess - truth) < 0.5).astype(np.float64)
