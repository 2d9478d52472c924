"""Which row of a pool is whose? The pool holds everybody's row, in an order of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack
from attacks.questions import Identify
from audits.games.base import OutcomeGame, choose, plays
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

MANY_TARGETS = 500


@plays(Identify)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> OutcomeGame:
    """Prior: a guess at random. Users with the same row are one: either counts as found."""
    if truth.graph.features.dim() != 2:
        raise CannotAttack("nodes hold several samples each; there is no one row to find")
    features = truth.features()
    order = rng.permutation(len(features))
    pool = features[order]
    others = np.setdiff1d(np.arange(len(features)), sorted(adversary.clients))
    wanted = choose(others, MANY_TARGETS, rng)

    def same_row(guess: Array, ids: NDArray[np.int64]) -> Array:
        same: Array = (pool[guess.astype(np.int64)] == features[ids]).all(1).astype(np.float64)
        return same

    return OutcomeGame(
        question=Identify(ids=wanted, candidates=pool),
        metric=f"share found in a pool of {len(pool)}",
        unit="row",
        truth=wanted,
        outcome=same_row,
        prior_guess=rng.integers(len(pool), size=len(wanted)).astype(np.float64),
    )
