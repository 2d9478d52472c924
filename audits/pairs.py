"""Intervals for pairs of nodes. Pairs that share a node are not independent, so nodes count.

Were nodes drawn again with replacement, a pair would count as often as both its nodes came up
together, w_i w_j. An AUC is linear in these products to first order, sum_p f_p w_i w_j with f_p how
much pair p moves it, so its variance over draws is, for weights that are Poisson(1),
sum_i (sum of f_p over i's pairs)^2 + sum_p f_p^2. One pass gives what 200 draws give, to a tenth.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from audits.metrics import Floats, checked_scores, clopper_pearson, placements
from securefg.foundation.interval import Interval

Pairs = NDArray[np.int64]


def pair_gain(
    truth: NDArray[np.int64], scores: Floats, prior: Floats | None, pairs: Pairs
) -> Interval:
    """AUC(scores) - AUC(prior), or - 0.5 without one, over pairs (n, 2) of nodes."""
    value, moves = _placed(truth, scores)
    chance = 0.5
    if prior is not None:
        chance, of_prior = _placed(truth, prior)
        moves = moves - of_prior
    value -= chance
    reach = float(ndtri(0.975)) * _spread(moves, truth, pairs)
    low, high = max(-1.0, value - reach), min(1.0, value + reach)
    if reach == 0 and prior is None and abs(value) == 0.5:  # a perfect separation has no spread
        count = len(np.unique(pairs[truth == 1]))
        end = clopper_pearson(count if value > 0 else 0, count)
        low, high = min(value, end.low - 0.5), max(value, end.high - 0.5)
    return Interval(value=value, low=low, high=high)


def pair_auc(truth: NDArray[np.int64], scores: Floats, pairs: Pairs) -> Interval:
    gain = pair_gain(truth, scores, None, pairs)
    return Interval(
        value=gain.value + 0.5, low=max(0.0, gain.low + 0.5), high=min(1.0, gain.high + 0.5)
    )


def _placed(truth: NDArray[np.int64], scores: Floats) -> tuple[float, Floats]:
    """The AUC, and by how much every pair moves it if it counts once more."""
    ones = truth == 1
    over, under = placements(checked_scores(scores), ones)
    value = float(over.mean())
    moves = np.zeros(len(truth))
    moves[ones] = (over - value) / len(over)
    moves[~ones] = (under - value) / len(under)
    return value, moves


def _spread(moves: Floats, truth: NDArray[np.int64], pairs: Pairs) -> float:
    ones = int(truth.sum())
    if min(ones, len(truth) - ones) < 2:  # nothing is known of the spread: the whole range then
        return 1.0
    by_node = np.bincount(pairs.ravel(), np.repeat(moves, 2))
    return math.sqrt(float((by_node**2).sum() + (moves**2).sum()))
