"""Evidence and how attacks weigh it: beside a prior, and as a ratio of two normal densities."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from attacks.base import Array, Noise
from securefg.foundation.ranks import average_ranks

Floats = NDArray[np.float64]
SURE = 8.0
"""Evidence without noise: the prior is left to break ties, or nearly."""
HEDGED = 0.25
PLENTY = 100.0
"""Shifts from here on, noise hides little."""


def lean_evidence(evidence: Array, prior: Array | None, shift: float = math.inf) -> Array:
    """Return weight(shift) * evidence + prior, both as normal scores.

    The policy says by how many standard deviations of its noise a secret can shift the evidence at
    most. If evidence shifts by s, its log likelihood ratio has slope s, so noise that hides all of
    it leaves the prior. The bound is no estimate: if noise may hide the evidence, the evidence
    counts a quarter of the prior. Worthless evidence then costs the prior little, and strong
    evidence still shows. Evidence counts fully without noise, and nearly fully if the noise is far
    below the largest shift.
    """
    if prior is None:
        return evidence
    found: Array = evidence_weight(shift) * normal_scores(evidence) + normal_scores(prior)
    return found


def evidence_weight(shift: float) -> float:
    """Return how much evidence counts beside a prior of weight 1."""
    return min(SURE, max(min(shift, HEDGED), shift / PLENTY))


def normal_scores(values: Array) -> Array:
    """Return the normal quantiles of the ranks, or zeros if all values are alike."""
    if values.min() == values.max():
        return np.zeros(len(values))
    found: Array = ndtri((average_ranks(values) - 0.5) / len(values))
    return found


def largest_shift(noise: Noise | None, share: float, releases: int = 1) -> float:
    """Return by how many standard deviations a secret moves `releases` noised values at most, if it
    moves each by a share of the clip."""
    if noise is None or noise.sd == 0:
        return math.inf
    return share * noise.clip_l2 / noise.sd * math.sqrt(releases)


def pair_shift(noise: Noise | None, width: int, rounds: int) -> float:
    """Return the largest product of two clipped rows over rounds, in standard deviations sqrt(sd^4
    width + 2 sd^2 clip^2) of the noise on that product."""
    if noise is None or noise.sd == 0:
        return math.inf
    spread = noise.sd * math.sqrt(noise.sd**2 * width + 2 * noise.clip_l2**2)
    return noise.clip_l2**2 / spread * math.sqrt(rounds)


class BadMetricInput(ValueError):
    """An error: no metric is defined for these labels, scores or shares."""


def checked_scores(scores: ArrayLike) -> Floats:
    """Return the scores as a non-empty vector of finite numbers, or raise."""
    score_array = np.asarray(scores, dtype=np.float64)
    if score_array.ndim != 1 or score_array.size == 0:
        raise BadMetricInput(f"scores of shape {score_array.shape}; wanted one axis, not empty")
    bad = int(np.count_nonzero(~np.isfinite(score_array)))
    if bad:
        raise BadMetricInput(f"{bad} of {score_array.size} scores are NaN or infinite")
    return score_array


def gaussian_log_ratio(
    values: ArrayLike,
    in_mean: ArrayLike,
    in_sd: ArrayLike,
    out_mean: ArrayLike,
    out_sd: ArrayLike,
) -> Floats:
    """Return log N(value | in) - log N(value | out), the logarithm of a ratio of densities.

    This is LiRA's score (Carlini et al. 2022). The ratio grows without bound as the value leaves
    the mean of the non-members on the members' side or, for unequal sds, towards either side. A
    ratio of distribution functions does not.
    """
    found = checked_scores(values)
    return _log_density(found, in_mean, in_sd) - _log_density(found, out_mean, out_sd)


def _log_density(values: Floats, mean: ArrayLike, sd: ArrayLike) -> Floats:
    centre, spread = (np.asarray(x, dtype=np.float64) for x in (mean, sd))
    for name, found in (("mean", centre), ("sd", spread)):
        if found.shape not in ((), values.shape) or not np.isfinite(found).all():
            raise BadMetricInput(f"{name} of shape {found.shape}, or not finite")
    if not (spread > 0).all():
        raise BadMetricInput(f"sd: found {spread.min():g}, wanted more than 0")
    density: Floats = -0.5 * ((values - centre) / spread) ** 2 - np.log(spread)
    return density - 0.5 * math.log(2 * math.pi)
