"""The few most exposed targets: an average hides ten unprotected people of a thousand.

Of people who are all protected alike, the ten that an attack is surest of are members no more often
than anybody else. A mean gain of .005 is within every interval. Ten members among the ten highest
scores have a chance of 1 in 1 000.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from attacks.base import Array
from audits.games.base import BinaryGame, Game, OutcomeGame, somebody_elses
from audits.metrics import clopper_pearson

TEN = 10
LEAST = 10 * TEN


def tail_chance(game: Game, guess: Array, rng: np.random.Generator) -> float | None:
    """Return the chance that ten targets stand out as the ten most exposed do.

    None where targets are few, or where an outcome is only right or wrong, which a lucky guess is.
    """
    if isinstance(game, BinaryGame):
        return _among(game.truth == 1, guess, game.prior_scores)
    if isinstance(game, OutcomeGame):
        own, others = game.gains(guess), game.gains(guess, somebody_elses(game.truth, rng))
        if len(np.unique(own)) > TEN:
            so = np.repeat([True, False], len(own))
            return _among(so, np.concatenate([own, others]), None)
    return None


def _among(so: NDArray[np.bool_], scores: Array, prior: Array | None) -> float | None:
    """Return the chance of as many among the ten best, by the share of all, or of the prior's."""
    if min(int(so.sum()), int((~so).sum())) < LEAST:
        return None
    share = float(so.mean())
    if prior is not None:
        share = max(share, clopper_pearson(_best(so, prior), TEN).high)
    return float(bdtrc(_best(so, scores) - 1, TEN, min(share, 1.0)))


def _best(so: NDArray[np.bool_], scores: Array) -> int:
    """Return how many of the ten best scores are so; ties with the tenth count as they fall on
    average, rounded down."""
    last = np.partition(scores, scores.size - TEN)[scores.size - TEN]
    above, tied = scores > last, scores == last
    room = TEN - int(above.sum())
    return int(so[above].sum() + room * so[tied].mean() + 1e-9)
