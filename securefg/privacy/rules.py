"""Rules: what the channel does to a private field before it leaves, and the release it books.

`plain` does nothing and books epsilon = infinity. `local_gaussian` clips and adds Gaussian noise
that suffices alone: every single upload is protected. `distributed_discrete` adds to every client's
upload a share of the noise that only the sum carries whole; it is of use under masking alone.
`dp_sgd` says that the noise went into the training that made the value; the channel adds none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import torch
from torch import Tensor

from securefg.foundation.errors import PrivacyError
from securefg.privacy.discrete_gaussian import rho_of_sum
from securefg.privacy.dp_sgd import DpSgdPlan
from securefg.privacy.noise import NoiseSource
from securefg.privacy.rounding import RoundingPlan
from securefg.privacy.stages import clip_l2, sensitivity_l2
from securefg.protocol.codec import Clients
from securefg.settings.privacy import Adjacency, Per

GRID_BITS: Final = 10
"""Steps of the grid of `local_gaussian` in one standard deviation, as a power of two."""


@dataclass(frozen=True)
class Plain:
    """The value leaves as it is."""

    name: Literal["plain"] = "plain"
    noise_multiplier: None = None

    def apply(
        self, values: Tensor, noise: NoiseSource, clients: Clients, stream: tuple[str | int, ...]
    ) -> Tensor:
        return values

    def words(self) -> str:
        return "sent as it is"


@dataclass(frozen=True)
class LocalGaussian:
    """y = clip(x, C) + N(0, (z S)^2), with S the sensitivity of the unit (2C or C, or `moved_l2`
    where a method proves how far a node moves its message) and z the noise multiplier. Protects
    one row, or one client's whole message, against everybody who sees the upload, per release;
    the ledger composes the releases.

    The sum is rounded to a grid of about sigma / 2^10, which is post-processing and costs no
    privacy. Without it, the low bits of a float tell which numbers the value plus a float of the
    sampler can reach (Mironov 2012). The sampler has 53 bits, 2^40 of its numbers fall on one step
    near the centre, and so hardly any step tells two values apart. In the far tails floats are
    sparser: that gap is not counted in delta. Discrete noise has no such gap. Seeded noise protects
    nothing and is not rounded.
    """

    clip_l2: float
    noise_multiplier: float
    per: Per
    adjacency: Adjacency = "replace_one"
    moved_l2: float | None = None
    name: Literal["local_gaussian"] = "local_gaussian"

    @property
    def sensitivity(self) -> float:
        """What the noise is sized for: how far the unit can move the value."""
        clipped = sensitivity_l2(self.clip_l2, self.adjacency)
        return clipped if self.moved_l2 is None else min(self.moved_l2, self.widest)

    @property
    def widest(self) -> float:
        """The farthest that any two clipped values lie apart."""
        return 2 * self.clip_l2

    @property
    def stddev(self) -> float:
        return self.noise_multiplier * self.sensitivity

    @property
    def grid_step(self) -> float:
        """The power of two, near stddev / 2^GRID_BITS, whose multiples leave a client."""
        return 2.0 ** (math.floor(math.log2(self.stddev)) - GRID_BITS)

    def single_stddev(self, shape: torch.Size) -> float:
        """Of the noise on every number of one client's value."""
        return self.stddev

    @property
    def stddev_over_clip(self) -> float:
        """The noise multiplier of a client's message, or row, whatever the noise is sized for."""
        if self.moved_l2 is None:
            return self.noise_multiplier
        return self.stddev / sensitivity_l2(self.clip_l2, self.adjacency)

    def apply(
        self, values: Tensor, noise: NoiseSource, clients: Clients, stream: tuple[str | int, ...]
    ) -> Tensor:
        clipped = clip_l2(values, self.clip_l2, self.per)
        normals = noise.normal(values.shape, clients, stream).to(clipped.device)
        noisy = clipped.add_(normals, alpha=self.stddev)
        if not noise.protects:  # a known seed is taken off: no rounding may stand in its way
            return noisy.to(values.dtype)
        return noisy.div_(self.grid_step).round_().mul_(self.grid_step).to(values.dtype)

    def words(self) -> str:
        return (
            f"each {self.per} clipped to L2 norm {self.clip_l2:g}, "
            f"Gaussian noise of standard deviation {self.stddev:.4g} added"
        )


@dataclass(frozen=True)
class DistributedDiscrete:
    """The distributed discrete Gaussian mechanism (Kairouz, Liu and Steinke 2021).

    Every unit is clipped, put on a grid of step 1/scale, rounded, and given integer noise
    N_Z(0, sigma^2); `least_noises` honest survivors together carry z times the sensitivity.
    Protects one row, or one client's message, against all who see the sum; the single upload is
    protected by its masks, not by its noise.
    """

    clip_l2: float
    noise_multiplier: float
    per: Per
    scale: float
    least_noises: int
    adjacency: Adjacency = "zero_out"
    moved_l2: float | None = None
    name: Literal["distributed_discrete"] = "distributed_discrete"

    def plan(self, values: Tensor) -> RoundingPlan:
        return self.plan_for(values[0].numel() if self.per == "message" else values.shape[-1])

    def plan_for(self, dim: int) -> RoundingPlan:
        """A row is rounded again where it passes a bound, unless distances count and not norms."""
        if self.moved_l2 is not None:
            return RoundingPlan(self.clip_l2, self.scale, dim, beta=0)
        return RoundingPlan(self.clip_l2, self.scale, dim)

    def sensitivity(self, plan: RoundingPlan) -> float:
        """What the noise is sized for, in steps of the grid, rounding included."""
        if self.moved_l2 is not None:
            return min(self.moved_steps(self.moved_l2, plan), self.widest(plan))
        return sensitivity_l2(plan.norm_bound, self.adjacency)

    def widest(self, plan: RoundingPlan) -> float:
        """The farthest that any two rounded values lie apart, in steps of the grid."""
        return 2 * plan.norm_bound

    def moved_steps(self, distance: float, plan: RoundingPlan) -> float:
        """How far rounded values lie apart, in steps, whose exact ones lie `distance` apart.

        Rounding at random is floor(x + u) with u uniform. With the same u for both neighbours no
        coordinate moves by a whole step more than x does: c + sqrt(d), for every u, and the
        divergence of mixtures is at most the largest of their parts'. Where rows are rounded again,
        the u differ, and so may the roundings: c + 2 sqrt(d).
        """
        slack = 1 if plan.beta == 0 else 2
        return distance * self.scale + slack * math.sqrt(plan.dim)

    def local_stddev(self, plan: RoundingPlan) -> float:
        """sigma of one client's noise, in steps of the grid."""
        return self.noise_multiplier * self.sensitivity(plan) / math.sqrt(self.least_noises)

    def single_stddev(self, shape: torch.Size) -> float:
        """Of the noise on every number of one client's value of this shape, in its own units."""
        dim = shape.numel() if self.per == "message" else shape[-1]
        return self.local_stddev(self.plan_for(dim)) / self.scale

    def effective_multiplier(self, plan: RoundingPlan) -> float:
        """1 / sqrt(2 rho): the Gaussian whose zCDP this is, with the gap between a sum of
        discrete Gaussians and one discrete Gaussian counted in."""
        sigma, bound = self.local_stddev(plan), sensitivity_l2(plan.norm_bound, self.adjacency)
        return 1 / math.sqrt(2 * rho_of_sum(bound, sigma, self.least_noises, plan.dim))

    def apply(
        self, values: Tensor, noise: NoiseSource, clients: Clients, stream: tuple[str | int, ...]
    ) -> Tensor:
        raise PrivacyError("distributed noise protects only a masked sum; nothing was sent")

    def words(self) -> str:
        return (
            f"each {self.per} clipped to L2 norm {self.clip_l2:g}; the sum carries discrete "
            f"Gaussian noise of {self.noise_multiplier:.4g} times the sensitivity"
        )


@dataclass(frozen=True)
class TrainedWithNoise:
    """The value is weights that `dp_sgd.train` made by this plan; it leaves as it is.

    Protects one of the client's `num_samples` samples. Only a method that plans the release so
    gets this rule, and it must train so: nothing in the channel can tell.
    """

    plan: DpSgdPlan
    num_samples: int
    name: Literal["dp_sgd"] = "dp_sgd"

    @property
    def noise_multiplier(self) -> float:
        return self.plan.noise_multiplier

    def single_stddev(self, shape: torch.Size) -> float:
        raise PrivacyError("the noise of DP-SGD is in the training; its size here is unknown")

    def apply(
        self, values: Tensor, noise: NoiseSource, clients: Clients, stream: tuple[str | int, ...]
    ) -> Tensor:
        return values

    def words(self) -> str:
        return (
            f"trained in {self.plan.num_steps} steps with each sample's gradient clipped to L2 "
            f"norm {self.plan.clip_l2:g} and noise of {self.plan.noise_multiplier:.4g} times that"
        )


Rule = Plain | LocalGaussian | DistributedDiscrete | TrainedWithNoise
