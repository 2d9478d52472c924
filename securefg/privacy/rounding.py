"""Scaling to the integer grid and conditional stochastic rounding, with the norm it can reach.

Kairouz, Liu and Steinke 2021, "The Distributed Discrete Gaussian Mechanism for Federated Learning
with Secure Aggregation", section 4.1 and Proposition 22.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from securefg.foundation.errors import ConfigError, PrivacyError, RunFailed

DEFAULT_BETA: Final = math.exp(-0.5)

# A row fails all tries with probability at most beta^1000, below 2^-700 at the default.
_MAX_TRIES: Final = 1000

# Norms are float64: rows may pass the clip by this share of it, and the bound counts it in.
_SLACK: Final = 1e-9


@dataclass(frozen=True)
class RoundingPlan:
    """Rows of `dim` coordinates, clipped to `clip_l2`, times `scale`, rounded to integers."""

    clip_l2: float
    scale: float
    dim: int
    beta: float = DEFAULT_BETA

    def __post_init__(self) -> None:
        for name in ("clip_l2", "scale", "dim"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name}: found {getattr(self, name)}, wanted a positive number")
        if not 0 <= self.beta < 1:
            raise ConfigError(f"beta: found {self.beta}, wanted 0 <= beta < 1")

    @property
    def norm_bound(self) -> float:
        """The L2 norm that no rounded row passes, in steps of the grid; with c = clip_l2 scale and
        what float64 may add to it,

        min { c + sqrt(d),  sqrt(c^2 + d/4 + sqrt(2 ln(1/beta)) (c + sqrt(d)/2)) }.

        The first holds always; the second after trying again, at most a fraction beta of times.
        It is the sensitivity that `rho_of_sum` takes where neighbours differ by one client.
        """
        c, root = self.clip_l2 * self.scale * (1 + _SLACK), math.sqrt(self.dim)
        always = c + root
        if self.beta == 0:
            return always
        deviation = math.sqrt(2 * math.log(1 / self.beta)) * (c + root / 2)
        return min(always, math.sqrt(c * c + self.dim / 4 + deviation))


def round_rows(
    rows: NDArray[np.floating[Any]], plan: RoundingPlan, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Round scale * row up or down at random, without bias; again while a row passes the bound.

    The bound holds for every outcome of `rng`, and the privacy proof asks for no more: this
    randomness keeps the mean honest and protects nothing, so it need not be a CSPRNG. With beta 0
    the bound holds by arithmetic and no row is tried again: where neighbours' distances count,
    both must be rounded by the same draws.
    """
    scaled = np.asarray(rows, np.float64) * plan.scale
    _require_clipped(scaled, plan)
    whole = _round_once(scaled, rng)
    if plan.beta == 0:
        return whole.astype(np.int64)
    for _ in range(_MAX_TRIES):
        above = np.flatnonzero(_norms(whole) > plan.norm_bound)
        if not above.size:
            return whole.astype(np.int64)
        whole[above] = _round_once(scaled[above], rng)
    raise RunFailed(f"{above.size} rows passed the norm bound {plan.norm_bound:g} on every try")


def _round_once(scaled: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    floor = np.floor(scaled)
    return floor + (rng.random(scaled.shape) < scaled - floor)


def _norms(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    norms: NDArray[np.float64] = np.linalg.norm(rows, axis=1)
    return norms


def _require_clipped(scaled: NDArray[np.float64], plan: RoundingPlan) -> None:
    if scaled.ndim != 2 or scaled.shape[1] != plan.dim:
        raise PrivacyError(f"rows have shape {scaled.shape}, planned were (clients, {plan.dim})")
    # Written so that NaN, which compares false with everything, is refused too.
    clipped = _norms(scaled) <= plan.clip_l2 * plan.scale * (1 + _SLACK)
    if not clipped.all():
        raise PrivacyError(
            f"{np.count_nonzero(~clipped)} of {len(scaled)} rows are not clipped to the planned "
            f"L2 norm {plan.clip_l2:g}"
        )
