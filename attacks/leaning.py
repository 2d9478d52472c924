"""Evidence beside a prior: both as normal scores, weighed by how far noise lets evidence speak.

Whoever adds log likelihood ratios never does worse than with the prior alone. Of evidence whose
shift between the two answers is at most s standard deviations of its own noise the log ratio has
slope s; the policy says how large s can be. Noise that hides everything leaves the prior.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from attacks.base import Array, Noise
from securefg.foundation.ranks import average_ranks

SURE = 8.0
"""Evidence without noise: the prior is left to break ties, or nearly."""


def leaning(evidence: Array, prior: Array | None, shift: float = math.inf) -> Array:
    """min(shift, SURE) * evidence + prior, on the scale of normal scores."""
    if prior is None:
        return evidence
    found: Array = min(shift, SURE) * normal_scores(evidence) + normal_scores(prior)
    return found


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
