"""Intervals for pairs of nodes. Pairs that share a node are not independent, so nodes are redrawn.

A draw takes the nodes with replacement; a pair counts as often as both its nodes came up together.
The interval is normal, with the standard deviation over the draws.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from audits.metrics import Floats, clopper_pearson
from securefg.foundation.interval import Interval

DRAWS = 200
Pairs = NDArray[np.int64]


def pair_gain(
    truth: NDArray[np.int64], scores: Floats, prior: Floats | None, pairs: Pairs, seed: int = 0
) -> Interval:
    """AUC(scores) - AUC(prior), or - 0.5 without one, over pairs (n, 2) of nodes."""
    every = np.ones(len(pairs))
    ranked = [_Ranked(truth, scores)] + ([] if prior is None else [_Ranked(truth, prior)])

    def gain(weights: Floats) -> float:
        values = [one.auc(weights) for one in ranked]
        return values[0] - (values[1] if len(values) > 1 else 0.5)

    value = gain(every)
    reach = float(ndtri(0.975)) * _spread(gain, pairs, seed)
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


class _Ranked:
    """Scores put in order once, so that every draw costs one pass."""

    def __init__(self, truth: NDArray[np.int64], scores: Floats) -> None:
        _, self._rank = np.unique(scores, return_inverse=True)
        self._ones, self._size = truth == 1, int(self._rank.max()) + 1

    def auc(self, weights: Floats) -> float:
        """P[a 1 scores higher] + P[equal] / 2, every pair counted by its weight."""
        ones = np.bincount(self._rank[self._ones], weights[self._ones], self._size)
        zeros = np.bincount(self._rank[~self._ones], weights[~self._ones], self._size)
        below = np.cumsum(zeros) - zeros / 2
        total = ones.sum() * zeros.sum()
        return float((ones * below).sum() / total) if total else float("nan")


def _spread(gain: Callable[[Floats], float], pairs: Pairs, seed: int) -> float:
    nodes, place = np.unique(pairs, return_inverse=True)
    first, second = place.reshape(pairs.shape).T
    rng, found = np.random.default_rng(seed), []
    for _ in range(DRAWS):
        times = rng.multinomial(len(nodes), np.full(len(nodes), 1 / len(nodes))).astype(float)
        found.append(gain(times[first] * times[second]))
    known = np.array(found)[np.isfinite(found)]
    # Where most draws hold no edge, nothing is known of the spread: the whole range then.
    return float(known.std(ddof=1)) if len(known) > DRAWS // 2 else 1.0
