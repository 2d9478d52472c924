"""One draw of noise on a sum, seen by all targets that are in the sum.

Who knows everybody else reads <noise, move> + (so - 1/2) |move|^2 off a sum, for every target with
the same noise. Two things follow. Targets that move the sum alike are all read too high, or all too
low: their order is right under any noise, while each of them alone may not be told. And the AUC of
all targets lies off chance by as much as one draw makes of the differences between members' moves
and others', which no redrawing of targets shows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array
from attacks.questions import SumQuestion
from audits.games.base import BinaryGame
from audits.metrics import auc_null_sd, auc_of_ranks
from securefg.foundation.interval import Interval
from securefg.foundation.ranks import average_ranks

DRAWS = 60


@dataclass(frozen=True)
class SumGame(BinaryGame):
    """Of members of a sum, each of them asked about alone."""

    def measure(self, guess: Array) -> Interval:
        self.check(guess)
        return super().measure(self._alone(guess))

    def gain(self, guess: Array) -> Interval:
        self.check(guess)
        return super().gain(self._alone(guess))

    def _alone(self, guess: Array) -> Array:
        assert isinstance(self.question, SumQuestion)
        return told_alone(guess, self.question.moves)


def shared_sd(truth: NDArray[np.int64], moves: Array, rng: np.random.Generator) -> float:
    """The standard deviation of the AUC of <noise, move> over draws of the noise, beyond that of
    scores that are independent."""
    rows = moves.reshape(len(moves), -1)
    noise = rng.standard_normal((rows.shape[1], DRAWS))
    found = [auc_of_ranks(truth, average_ranks(scores)) for scores in (rows @ noise).T]
    ones = int(truth.sum())
    alone = auc_null_sd(ones, len(truth) - ones)
    spread = float(np.mean(np.square(np.array(found) - 0.5)))
    return math.sqrt(max(0.0, spread - alone**2))


def told_alone(scores: Array, moves: Array) -> Array:
    """Of targets that move the sum alike only what each alone tells is left: the sign of its
    log likelihood ratio, at the length that is usual among them."""
    rows = moves.reshape(len(moves), -1)
    size = float(np.abs(rows).max(initial=0))
    if not size:
        return scores
    _, alike, counts = np.unique(
        np.round(rows / size, 6), axis=0, return_inverse=True, return_counts=True
    )
    alike = alike.reshape(-1)
    length = np.bincount(alike, np.abs(scores)) / counts
    found: Array = np.where(counts[alike] > 1, np.sign(scores) * length[alike], scores)
    return found
