"""Tails of the laws that audits test against, without the half second that scipy.stats costs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, chdtr, chdtrc, gammaincinv, stdtr


def chi2_log_cdf(x: ArrayLike, degrees: ArrayLike) -> Any:
    """Return log P[chi^2 <= x]."""
    with np.errstate(divide="ignore"):
        return np.log(chdtr(_to_array(degrees), _to_array(x)))


def chi2_log_sf(x: ArrayLike, degrees: ArrayLike) -> Any:
    """Return log P[chi^2 > x]."""
    with np.errstate(divide="ignore"):
        return np.log(chdtrc(_to_array(degrees), _to_array(x)))


def chi2_quantile(p: float, degrees: float) -> float:
    """Return the x with P[chi^2 <= x] = p."""
    return float(2 * gammaincinv(degrees / 2, p))


def binomial_at_least(least: ArrayLike, trials: int, p: float) -> Any:
    """Return P[Bin(trials, p) >= least]."""
    k = _to_array(least)
    inside = np.clip(k, 1, max(trials, 1))
    tail = betainc(inside, trials - inside + 1, p)
    return np.where(k <= 0, 1.0, np.where(k > trials, 0.0, tail))


def student_sf(x: float, degrees: float) -> float:
    """Return P[t > x]."""
    return float(stdtr(degrees, -x))


def _to_array(values: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(values, np.float64)
