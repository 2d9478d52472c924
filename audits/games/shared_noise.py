"""Intervals of gains where all targets of a sum share one draw of its noise.

An adversary who knows everybody but the target reads <noise, move> + (so - 1/2) |move|^2 off a sum,
for every target with the same noise. That has three effects on the AUC over all targets:

- Targets with equal moves are all read too high, or all too low. Their order is right under any
  noise, while no single one can be told (`told_alone`).
- The AUC lies off chance by as much as one draw makes of the differences between members' moves
  and others' (`shared_sd`).
- The noise of two nearly parallel moves nearly cancels in their order. The AUC is then too large
  on average, and no wider interval around it helps. The noise itself is not biased: what one draw
  shows of its size is a chi-square variable, whatever the moves are (`least_gain_alone`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from attacks.base import Array
from audits.closed_form import gain_of_distance
from audits.metrics import auc_null_sd, auc_of_ranks
from securefg.foundation.interval import Interval
from securefg.foundation.ranks import average_ranks

DRAWS = 60
TAIL = 0.001
"""The chance that the lower end lies above the gain. It is small, because a page has many sums."""
SMALLEST_SIZE = 1e-9
"""Directions in which the moves are that much shorter than in the longest count as none."""
LARGEST_MISFIT = 1e-3


def shared_sd(truth: NDArray[np.int64], moves: Array, rng: np.random.Generator) -> float:
    """Return the standard deviation of the AUC of <noise, move> over draws of the noise, beyond
    that of independent scores."""
    rows = moves.reshape(len(moves), -1)
    noise = rng.standard_normal((rows.shape[1], DRAWS))
    found = [auc_of_ranks(truth, average_ranks(scores)) for scores in (rows @ noise).T]
    ones = int(truth.sum())
    alone = auc_null_sd(ones, len(truth) - ones)
    spread = float(np.mean(np.square(np.array(found) - 0.5)))
    return math.sqrt(max(0.0, spread - alone**2))


def told_alone(scores: Array, moves: Array) -> Array:
    """Return scores that tell of targets with equal moves only what each tells alone.

    That is the sign of its log likelihood ratio, at the mean length among the targets alike.
    """
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


@dataclass(frozen=True)
class ShownNoise:
    """What log likelihood ratios show of the noise on a sum, in the units of the moves.

    square  the squared length of the noise in the directions of the moves
    rank    how many directions these are
    """

    square: float
    rank: int

    def largest_sd(self, tail: float = TAIL) -> float:
        """Return the standard deviation that is exceeded with this chance, given what is shown.

        square / sd^2 is a chi-square variable with `rank` degrees of freedom.
        """
        return math.sqrt(self.square / float(chdtri(self.rank, 1 - tail)))


def read_noise(scores: Array, truth: NDArray[np.int64], moves: Array) -> ShownNoise | None:
    """Return the noise behind log likelihood ratios, or None if scores are of another kind.

    The ratios are <noise, move> + (so - 1/2) |move|^2 by target. The auditor knows the truth, so
    the rest is what the noise does along each move. Other scores do not fit into that many
    directions.
    """
    rows = moves.reshape(len(moves), -1)
    gram = rows @ rows.T
    sizes, vectors = np.linalg.eigh(gram)
    kept = sizes > SMALLEST_SIZE * max(float(sizes[-1]), 0.0)
    if not kept.any():
        return None
    along = scores - (truth - 0.5) * np.diagonal(gram)
    parts = vectors.T @ along
    misfit = float(np.linalg.norm(parts[~kept]))
    if misfit > LARGEST_MISFIT * float(np.linalg.norm(scores)):
        return None
    square = float(np.sum(parts[kept] ** 2 / sizes[kept]))
    return ShownNoise(square, int(kept.sum()))


def least_gain_alone(scores: Array, truth: NDArray[np.int64], moves: Array) -> float | None:
    """Return a lower end of the mean gain over targets that are each asked about alone.

    That is the gain at the largest noise which fits what the scores show. None for scores that are
    no log likelihood ratios.
    """
    shown = read_noise(scores, truth, moves)
    if shown is None:
        return None
    lengths = np.linalg.norm(moves.reshape(len(moves), -1), axis=1)
    distances = lengths / max(shown.largest_sd(), np.finfo(np.float64).tiny)
    return float(gain_of_distance(distances).mean())


def lower_interval(measured_interval: Interval, least: float | None) -> Interval:
    """Return the interval with a lower end of at most `least`."""
    if least is None or least >= measured_interval.low:
        return measured_interval
    return measured_interval.model_copy(update={"low": least})
