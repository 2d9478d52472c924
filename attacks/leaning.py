"""Evidence beside a prior: both as normal scores, weighed by how far noise lets evidence speak.

The policy says by how many standard deviations of its noise a secret can shift the evidence at
most. Of evidence that shifts by s the log likelihood ratio has slope s, so noise that hides all of
it leaves the prior. Where noise may hide it (the bound is no estimate), evidence counts a
quarter of the prior: if it is worthless that costs the prior little, and if it is strong it still
shows. It counts fully without noise, and nearly so where noise is far below what it could hide.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from attacks.base import Array, Noise
from securefg.foundation.ranks import average_ranks

SURE = 8.0
"""Evidence without noise: the prior is left to break ties, or nearly."""
HEDGED = 0.25
PLENTY = 100.0
"""Shifts from here on, noise hides little."""


def leaning(evidence: Array, prior: Array | None, shift: float = math.inf) -> Array:
    """weight(shift) * evidence + prior, on the scale of normal scores."""
    if prior is None:
        return evidence
    found: Array = weight(shift) * normal_scores(evidence) + normal_scores(prior)
    return found


def weight(shift: float) -> float:
    """How much evidence counts beside a prior of weight 1."""
    return min(SURE, max(min(shift, HEDGED), shift / PLENTY))


def normal_scores(values: Array) -> Array:
    """The normal quantiles of the ranks; zero where all values are alike."""
    if values.min() == values.max():
        return np.zeros(len(values))
    found: Array = ndtri((average_ranks(values) - 0.5) / len(values))
    return found


def largest_shift(noise: Noise | None, share: float, releases: int = 1) -> float:
    """By how many standard deviations something moves `releases` noised values at most, if it
    moves each by a share of the clip."""
    if noise is None or noise.sd == 0:
        return math.inf
    return share * noise.clip_l2 / noise.sd * math.sqrt(releases)


def pair_shift(noise: Noise | None, width: int, rounds: int) -> float:
    """Of the product of two clipped rows, over rounds: the most that it can be, in standard
    deviations sqrt(sd^4 width + 2 sd^2 clip^2) of what noise makes of it."""
    if noise is None or noise.sd == 0:
        return math.inf
    spread = noise.sd * math.sqrt(noise.sd**2 * width + 2 * noise.clip_l2**2)
    return noise.clip_l2**2 / spread * math.sqrt(rounds)
