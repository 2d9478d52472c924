"""From real vectors to the ring and back, on a grid that cannot overflow."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from securefg.foundation.errors import ConfigError, RunFailed
from securefg.secagg.ring import Ring, RingArray

TAIL_BITS: Final = 40
"""Noise passes the tail that was made room for with probability at most 2^-40."""

STRETCH: Final = 1 << 15
"""So many values are quantised at a time, to stay in the second-level cache."""

Reals = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Grid:
    """The grid of step 1/scale for a sum over `num_clients`; one that could overflow is refused.

    An upload is x with |x_i| <= clip or, where `max_weight` is set, [w, w x] with w up to it.
    Each client may add integer noise of standard deviation `noise_sigma`, in steps of the grid.
    The worst case n * weight * clip * scale + tail must stay below 2^(bits - 1).
    """

    num_clients: int
    clip: float
    scale: float
    max_weight: float | None = None
    noise_sigma: float = 0.0
    dim: int = 1
    ring: Ring = field(default_factory=Ring)

    def __post_init__(self) -> None:
        for name in ("num_clients", "clip", "scale", "max_weight", "dim"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"{name}: found {value}, wanted a positive number")
        if not 0 <= self.noise_sigma < math.inf:
            raise ConfigError(f"noise_sigma: found {self.noise_sigma}, wanted 0 or more")
        if self.worst_case > self.ring.largest:
            raise ConfigError(self._overflow_words())

    @property
    def bound(self) -> float:
        """The largest coordinate of one upload, the weight itself among them."""
        return self.clip if self.max_weight is None else self.max_weight * max(self.clip, 1.0)

    @property
    def noise_tail(self) -> int:
        """z with P[some coordinate of the noise's sum passes z] <= 2^-40.

        The discrete Gaussian is sub-Gaussian with its sigma (Canonne et al. 2020):
        P[|Z| > z] <= 2 exp(-z^2 / (2 n sigma^2)) for the sum, times d coordinates.
        """
        exponent = math.log(2 * self.dim) + TAIL_BITS * math.log(2)
        return math.ceil(self.noise_sigma * math.sqrt(2 * self.num_clients * exponent))

    @property
    def worst_case(self) -> int:
        """The largest absolute value that a sum can reach, in steps of the grid."""
        return self.num_clients * math.ceil(self.bound * self.scale) + self.noise_tail

    def error_bound(self, num_uploads: int = 1, *, stochastic: bool = False) -> float:
        """How far rounding can move a coordinate of the sum of so many uploads within the clip."""
        return num_uploads * (1.0 if stochastic else 0.5) / self.scale

    def quantise_values(self, values: Reals, rng: np.random.Generator | None = None) -> RingArray:
        """Clip coordinates to the bound, scale, round to nearest, or at random with an rng."""
        elements: RingArray = np.empty(values.shape, self.ring.dtype)
        source, flat = values.reshape(-1), elements.reshape(-1)
        for start in range(0, flat.size, STRETCH):
            stretch = slice(start, start + STRETCH)
            flat[stretch] = self._quantise_in_place(source[stretch].astype(np.float64), rng)
        return elements

    def _quantise_in_place(self, values: Reals, rng: np.random.Generator | None) -> RingArray:
        """The values are overwritten."""
        if not np.isfinite(values).all():
            raise RunFailed("an upload holds NaN or infinity; no ring element stands for it")
        np.clip(values, -self.bound, self.bound, out=values)
        values *= self.scale
        if rng is None:
            np.rint(values, out=values)
        else:
            values += rng.random(values.shape)
            np.floor(values, out=values)
        return self.ring.from_signed(values.astype(np.int64))

    def dequantise_total(self, total: RingArray) -> NDArray[np.float64]:
        """Return a sum of ring elements as real numbers."""
        return self.ring.to_signed(total) / self.scale

    def _overflow_words(self) -> str:
        room = (self.ring.largest - self.noise_tail) / (self.num_clients * self.bound)
        wider = ", or a ring of 64 bits" if self.ring.bits < 64 else ""
        scale = f"a scale of at most {room:.6g}" if room > 0 else "less noise"
        return (
            f"the sum could overflow: {self.num_clients} clients * {self.bound:g} (weight * clip) "
            f"* scale {self.scale:g} + noise tail {self.noise_tail} = {self.worst_case} exceeds "
            f"2^{self.ring.bits - 1} - 1; take {scale}{wider}"
        )
