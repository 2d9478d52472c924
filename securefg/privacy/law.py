"""The law of noise: what audits hold recorded noise against, and attacks may know."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Law:
    """A distribution of the noise on every number of one client's value, symmetric around 0.

    sd           its standard deviation
    step         the step of the grid that unmasked uploads lie on; 0 where there is none
    log_equal    a bound on the logarithm of the chance that two draws of a number are equal
    log_tail     log P[noise > x sd] for x >= 0; None for a Gaussian, discrete or not
    is_discrete  the noise is a whole number of steps, and so is the value, rounded at random
    """

    sd: float
    step: float = 0.0
    log_equal: float = -24 * math.log(2)
    log_tail: Callable[[Floats], Floats] | None = None
    is_discrete: bool = False

    @property
    def is_gaussian(self) -> bool:
        """Return whether sums and trade-offs of Gaussian noise hold for it, exactly or nearly."""
        return self.log_tail is None

    @property
    def is_normal(self) -> bool:
        """Return whether the noise is `sd` times the normal numbers of a source, one for one."""
        return self.is_gaussian and not self.is_discrete

    def normal_scores(self, noise: Floats) -> Floats:
        """Return standard normal numbers if `noise`, in standard deviations, follows the law."""
        if self.log_tail is None:
            return noise
        from scipy.special import ndtri_exp  # loaded where it is used

        scores: Floats = -np.sign(noise) * ndtri_exp(self.log_tail(np.abs(noise)))
        return scores
