"""Likelihoods that attacks weigh: a ratio of densities, checked before it is trusted.

It lives beside the attacks because imports run from audits to attacks; `audits.metrics` shows it
under its own name.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


class BadMetricInput(ValueError):
    """Labels, scores or shares that no metric is defined for."""


def checked_scores(scores: ArrayLike) -> Floats:
    """A non-empty vector of finite numbers."""
    found = np.asarray(scores, dtype=np.float64)
    if found.ndim != 1 or found.size == 0:
        raise BadMetricInput(f"scores of shape {found.shape}; wanted one axis, not empty")
    bad = int(np.count_nonzero(~np.isfinite(found)))
    if bad:
        raise BadMetricInput(f"{bad} of {found.size} scores are NaN or infinite")
    return found


def gaussian_log_ratio(
    values: ArrayLike,
    in_mean: ArrayLike,
    in_sd: ArrayLike,
    out_mean: ArrayLike,
    out_sd: ArrayLike,
) -> Floats:
    """log N(value; in) - log N(value; out): LiRA's score (Carlini et al. 2022), of DENSITIES.

    It grows without bound as the value leaves the mean of the non-members on the members' side
    or, for unequal sds, towards either side; a ratio of distribution functions does not.
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
