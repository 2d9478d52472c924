"""Discrete Gaussian noise from a CSPRNG, and the zCDP of a sum of it.

P[X = x] = exp(-x^2 / 2 sigma^2) / sum_y exp(-y^2 / 2 sigma^2) on the integers (Canonne, Kamath and
Steinke 2020). Samples are read off a table of 128-bit CDF thresholds. Look-ups do not take the same
time for every value. The noise is drawn on the client, from whom it hides nothing.
"""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from securefg.foundation.errors import ConfigError
from securefg.secagg.prg import Keystream
from securefg.secagg.secret import RandomBytes

LEAST_SIGMA: Final = 0.5
LARGEST_SIGMA: Final = 2.0**16

_CHUNK: Final = 1 << 14
_THRESHOLD_BITS: Final = 128
_WEIGHT_BITS: Final = 320
_DIGITS: Final = 110
# Weights below 2^-160 of the largest are left out: far less than a threshold can resolve.
_LEAST_WEIGHT: Final = 1 << (_WEIGHT_BITS - 160)
_UNSETTLED: Final = np.iinfo(np.int32).min


@dataclass(frozen=True, eq=False)
class CdfTable:
    """A table of thresholds T_x = floor(2^128 P[X <= x]) for x = -reach … reach - 1, in two words
    each.

    A uniform 128-bit u stands for x = #{T <= u} - reach. Every probability is right to within
    2^-128, and either tail left out is smaller than that: a vector of d samples is within d * reach
    * 2^-126 of the law in total variation, 2^-92 for a million at sigma 1000. The guide answers for
    all u with the same leading bits if these settle it, as most do.
    """

    sigma: float
    reach: int
    high: NDArray[np.uint64] = field(repr=False)
    low: NDArray[np.uint64] = field(repr=False)
    guide: NDArray[np.int32] = field(repr=False)
    guide_shift: int


def sample(
    sigma: float, shape: int | tuple[int, ...], random_bytes: RandomBytes | None = None
) -> NDArray[np.int64]:
    """Return independent discrete Gaussian integers, with bits from AES-256-CTR under a fresh
    system seed.

    The sampler takes 8 bytes a sample, the high word of u, little endian, in stretches of 2^14
    samples, and after each stretch 8 more for each sample whose high word equals a threshold's.
    """
    table = cdf_table(float(sigma))
    read = Keystream.fresh().read if random_bytes is None else random_bytes
    out = np.empty(shape, np.int64)
    flat = out.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        part = flat[start : start + _CHUNK]
        part[:] = _look_up(table, np.frombuffer(read(8 * part.size), "<u8"), read)
    return out


def _look_up(table: CdfTable, words: NDArray[np.uint64], read: RandomBytes) -> NDArray[np.int32]:
    values: NDArray[np.int32] = table.guide[words >> np.uint64(table.guide_shift)]
    open_ = np.flatnonzero(values == _UNSETTLED)
    words = words[open_]
    passed = np.searchsorted(table.high, words, side="right")
    for tie in np.flatnonzero(table.high[np.maximum(passed - 1, 0)] == words):
        passed[tie] = _break_tie(table, words[tie], read)
    values[open_] = passed - table.reach
    return values


def _break_tie(table: CdfTable, high: np.uint64, read: RandomBytes) -> int:
    """Count thresholds up to u where the high words are equal, by the low words."""
    first, last = (int(np.searchsorted(table.high, high, side)) for side in ("left", "right"))
    low = np.frombuffer(read(8), "<u8")[0]
    return first + int(np.searchsorted(table.low[first:last], low, side="right"))


@lru_cache(maxsize=32)
def cdf_table(sigma: float) -> CdfTable:
    """Return the table of one sigma, computed in integers of 320 bits and kept."""
    if not LEAST_SIGMA <= sigma <= LARGEST_SIGMA:
        raise ConfigError(
            f"sigma of the discrete Gaussian: found {sigma:g}, wanted {LEAST_SIGMA:g} … "
            f"{LARGEST_SIGMA:g} steps of the grid; change the scale"
        )
    thresholds = _sum_thresholds(_probability_weights(sigma))
    high = np.array([t >> 64 for t in thresholds], np.uint64)
    low = np.array([t & (2**64 - 1) for t in thresholds], np.uint64)
    guide_bits = min(20, max(10, 6 + math.ceil(math.log2(sigma))))
    reach = len(thresholds) // 2
    guide = _guide_table(high, guide_bits, reach)
    return CdfTable(sigma, reach, high, low, guide, 64 - guide_bits)


def _probability_weights(sigma: float) -> list[int]:
    """Return 2^320 exp(-x^2 / 2 sigma^2) for x = 0, 1, … by w_(x+1) = w_x r_x, r_(x+1) = r_x
    e^(-1/s^2).

    Each step truncates by less than 2^-320. A million of them still leave over 250 good bits.
    """
    with decimal.localcontext(prec=_DIGITS):
        variance = decimal.Decimal(sigma) ** 2
        unit = decimal.Decimal(2) ** _WEIGHT_BITS
        ratio = int((-1 / (2 * variance)).exp() * unit)
        shrink = int((-1 / variance).exp() * unit)
    weights, weight = [], 1 << _WEIGHT_BITS
    while weight >= _LEAST_WEIGHT:
        weights.append(weight)
        weight = weight * ratio >> _WEIGHT_BITS
        ratio = ratio * shrink >> _WEIGHT_BITS
    return weights


def _sum_thresholds(weights: list[int]) -> list[int]:
    """Return the lower half by summing up, and the upper half as its mirror image: T_(-x-1) = 2^128
    - T_x.

    A threshold of 0 is passed by all, and its mirror image by none, so the table starts after it.
    """
    total = weights[0] + 2 * sum(weights[1:])
    below, running = [], 0
    for weight in reversed(weights[1:]):
        running += weight
        below.append((running << _THRESHOLD_BITS) // total)
    below = [threshold for threshold in below if threshold > 0]
    return below + [(1 << _THRESHOLD_BITS) - t for t in reversed(below)]


def _guide_table(high: NDArray[np.uint64], bits: int, reach: int) -> NDArray[np.int32]:
    """Return for each value of the leading bits the sample, if no threshold begins with them."""
    cells = np.arange(1 << bits, dtype=np.uint64)
    leading = high >> np.uint64(64 - bits)
    passed = np.searchsorted(leading, cells, side="left")
    settled = passed == np.searchsorted(leading, cells, side="right")
    return np.where(settled, passed - reach, _UNSETTLED).astype(np.int32)


def rho_of_sum(sensitivity_l2: float, sigma: float, num_noises: int, dim: int) -> float:
    """Return rho of rho-zCDP for the sum of integer vectors, each with its own N_Z(0, sigma^2)
    noise.

        tau = 10 sum_{k=1}^{n-1} exp(-2 pi^2 sigma^2 k / (k+1))
        rho = min { D^2 / (2 n sigma^2) + tau d,  (D / (sqrt(n) sigma) + tau sqrt(d))^2 / 2 }

    Kairouz, Liu and Steinke 2021, Theorem 1 and Proposition 14, in steps of the grid. tau is what a
    sum of n discrete Gaussians lacks of being one. D is `RoundingPlan.norm_bound` where
    neighbouring cohorts differ by one client's presence, twice that where by its data. The
    protected unit is a client, against all who see only the sum. n counts the honest clients that
    are sure to survive, since noise that a colluder knows protects nobody.
    """
    if min(sensitivity_l2, num_noises, dim) <= 0 or sigma < LEAST_SIGMA:
        raise ConfigError(
            f"sensitivity {sensitivity_l2:g}, noises {num_noises}, dim {dim}, sigma {sigma:g}: "
            f"wanted positive numbers and sigma >= {LEAST_SIGMA:g}"
        )
    tau = sum_gap(sigma, num_noises)
    ratio = sensitivity_l2 / (math.sqrt(num_noises) * sigma)
    return min(ratio**2 / 2 + tau * dim, (ratio + tau * math.sqrt(dim)) ** 2 / 2)


def sum_gap(sigma: float, num_noises: int) -> float:
    """Return tau = 10 sum_{k=1}^{n-1} exp(-2 pi^2 sigma^2 k / (k+1)), which is below 1e-36 from
    sigma 3 on."""
    k = np.arange(1, num_noises, dtype=np.float64)
    return 10.0 * float(np.exp(-2 * (math.pi * sigma) ** 2 * k / (k + 1)).sum())
