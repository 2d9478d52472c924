"""Gaussian noise at each client: y = clip(x, C) + N(0, (z S)^2).

S is the sensitivity of the unit: 2C where a value is replaced, C where it is zeroed out, or
`moved_l2` where a method proves how far a node moves its message. It protects one row, or one
client's whole message, against everybody who sees the upload, per release. The ledger composes the
releases, exactly (Balle and Wang 2018, Dong et al. 2019).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from securefg.foundation.units import plural
from securefg.privacy.defence import NoisyUpload, Stream
from securefg.privacy.influence import Influence
from securefg.privacy.law import Law
from securefg.privacy.ledger import Mechanism, Reach
from securefg.privacy.noise import NoiseSource
from securefg.privacy.stages import clip_l2, sensitivity_l2
from securefg.protocol.codec import Clients

GRID_BITS: Final = 10
"""Steps of the grid in one standard deviation, as a power of two."""

TAILS: Final = 8
"""Uploads under masks are cut off so many standard deviations beyond the clip."""


@dataclass(frozen=True)
class LocalGaussian(NoisyUpload):
    """A noise that suffices alone: every single upload is protected.

    The sum is rounded to a grid of about sigma / 2^10, which is post-processing and costs no
    privacy. Without it, the low bits of a float tell which numbers the value plus a float of the
    sampler can reach (Mironov 2012). The sampler has 53 bits, 2^40 of its numbers fall on one step
    near the centre, and so hardly any step tells two values apart. In the far tails floats are
    sparser: that gap is not counted in delta. Discrete noise has no such gap. Seeded noise protects
    nothing and is not rounded.
    """

    name = "local_gaussian"
    label = "Noise at each client"
    about = "every client adds Gaussian noise to its own upload"
    colour = 3

    @property
    def sensitivity(self) -> float:
        """Return the distance that the noise is sized for: how far the unit can move the value."""
        clipped = sensitivity_l2(self.clip_l2, self.adjacency)
        return clipped if self.moved_l2 is None else min(self.moved_l2, self.widest)

    @property
    def widest(self) -> float:
        """Return the farthest that any two clipped values lie apart."""
        return 2 * self.clip_l2

    @property
    def sigma(self) -> float:
        """Return the standard deviation of the noise on every number."""
        return self.noise_multiplier * self.sensitivity

    @property
    def grid_step(self) -> float:
        """Return the power of two, near sigma / 2^GRID_BITS, whose multiples leave a client."""
        return 2.0 ** (math.floor(math.log2(self.sigma)) - GRID_BITS)

    def apply(self, values: Tensor, noise: NoiseSource, clients: Clients, stream: Stream) -> Tensor:
        """Return clip(x, C) + N(0, sigma^2), rounded to the grid unless the noise is seeded."""
        clipped = clip_l2(values, self.clip_l2, self.per)
        normals = noise.normal(values.shape, clients, stream).to(clipped.device)
        noisy = clipped.add_(normals, alpha=self.sigma)
        if not noise.protects:  # a known seed is taken off: no rounding may stand in its way
            return noisy.to(values.dtype)
        return noisy.div_(self.grid_step).round_().mul_(self.grid_step).to(values.dtype)

    def law(self, shape: torch.Size) -> Law:
        """Return the law of the noise: Gaussian of standard deviation sigma, on the grid."""
        equal = math.log(1 / (2 * math.sqrt(math.pi) * self.sigma / self.grid_step))
        return Law(self.sigma, self.grid_step, equal)

    def multiplier(self, dim: int) -> float:
        """Return the noise over the clip's sensitivity, whatever the noise is sized for."""
        if self.moved_l2 is None:
            return self.noise_multiplier
        return self.sigma / sensitivity_l2(self.clip_l2, self.adjacency)

    def noise_met(self, influence: Influence, holders: int, dim: int, num_rows: int) -> Reach:
        """Return the noise that a node or an edge meets.

        A clipped message, or row, lies in a ball of radius C before and after, so that any change
        moves it by at most 2C, and r rows by 2C sqrt(r).
        """
        distance = self.widest * math.sqrt(self.rows_moved(influence, num_rows))
        if influence.moved_l2 is not None:
            distance = min(distance, influence.moved_l2)
        return Reach(self.sigma / distance, holders, removal=influence.moved is not None)

    def largest(self, bound: float) -> float:
        """Return the largest number that an upload may hold: the clip plus `TAILS` standard
        deviations."""
        return self.clip_l2 + TAILS * self.sigma

    def words(self) -> str:
        """Return the rule in words."""
        return (
            f"each {self.per} clipped to L2 norm {self.clip_l2:g}, "
            f"Gaussian noise of standard deviation {self.sigma:.4g} added"
        )

    @classmethod
    def booked_words(cls, mechanism: Mechanism, clip_l2: float) -> str:
        """Return a booked mechanism of this rule in words."""
        assert mechanism.noise_multiplier is not None
        words = cls(
            clip_l2=clip_l2,
            noise_multiplier=mechanism.noise_multiplier,
            per=mechanism.per,
            adjacency="zero_out" if mechanism.adjacency == "zero_out" else "replace_one",
        ).words()
        rows = f"; {plural(mechanism.num_rows, 'row')} a message" if mechanism.per == "row" else ""
        return (
            f"{words[0].upper()}{words[1:]} "
            f"(noise multiplier {mechanism.noise_multiplier:.4g}){rows}."
        )


DEFENCE = LocalGaussian
