"""The distributed discrete Gaussian mechanism (Kairouz, Liu and Steinke 2021).

Every unit is clipped, put on a grid of step 1/scale, rounded at random, and given integer noise
N_Z(0, sigma^2). `least_noises` honest survivors together carry z times the sensitivity, and no
smaller cohort is unmasked. It protects one row, or one client's message, against all who see the
sum. The single upload is protected by its masks, not by its noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from securefg.foundation.errors import ConfigError, PrivacyError, RunFailed
from securefg.privacy.defence import Asked, NoisyUpload, Stream, SumPlan
from securefg.privacy.discrete_gaussian import LARGEST_SIGMA, rho_of_sum, sample
from securefg.privacy.influence import Influence
from securefg.privacy.law import Law
from securefg.privacy.ledger import Mechanism, Reach
from securefg.privacy.noise import NoiseSource
from securefg.privacy.stages import clip_l2, sensitivity_l2
from securefg.protocol.codec import Clients
from securefg.secagg.quantise import Grid
from securefg.secagg.ring import RingArray
from securefg.settings.privacy import Adjacency

LEAST_SIGMA: Final = 3.0
"""Below this many steps of the grid, sums of discrete Gaussians are no discrete Gaussians."""

COMFORTABLE_SIGMA: Final = 2.0**14
"""A finer grid gains nothing: rounding is part of the bound, and tables grow with sigma."""


@dataclass(frozen=True)
class DistributedDiscrete(NoisyUpload):
    """A share of the noise at every client. Only the sum carries the whole noise."""

    name = "distributed_discrete"
    label = "Noise under masks"
    about = "discrete Gaussian noise of all clients together, under masks"
    colour = 4
    needs_masks = True
    rounds_at_random = True
    accounting = "zcdp"

    adjacency: Adjacency = "zero_out"
    scale: float = 1.0
    least_noises: int = 1

    @classmethod
    def settle(cls, asked: Asked) -> Self:
        """Return the rule, with the number of noises that are sure to be in a sum and unknown to
        its reader."""
        return replace(super().settle(asked), least_noises=asked.unknown_noises())

    @property
    def num_shares(self) -> int:
        """Return how many clients' noises together are the claimed noise."""
        return self.least_noises

    def plan(self, values: Tensor) -> RoundingPlan:
        """Return the rounding of every unit of a batch of values."""
        return self.plan_for(values[0].numel() if self.per == "message" else values.shape[-1])

    def plan_for(self, dim: int) -> RoundingPlan:
        """Return the rounding of a unit of `dim` numbers.

        A row is rounded again where it passes a bound, unless distances count and not norms.
        """
        if self.moved_l2 is not None:
            return RoundingPlan(self.clip_l2, self.scale, dim, beta=0)
        return RoundingPlan(self.clip_l2, self.scale, dim)

    def noise_sensitivity(self, plan: RoundingPlan) -> float:
        """Return what the noise is sized for, in steps of the grid, rounding included."""
        if self.moved_l2 is not None:
            return min(self.moved_steps(self.moved_l2, plan), self.widest_distance(plan))
        return sensitivity_l2(plan.norm_bound, self.adjacency)

    def widest_distance(self, plan: RoundingPlan) -> float:
        """Return the farthest that any two rounded values lie apart, in steps of the grid."""
        return 2 * plan.norm_bound

    def moved_steps(self, distance: float, plan: RoundingPlan) -> float:
        """Return how far rounded values lie apart, in steps, whose exact ones lie `distance` apart.

        Rounding at random is floor(x + u) with u uniform. With the same u for both neighbours no
        coordinate moves by a whole step more than x does: c + sqrt(d), for every u, and the
        divergence of mixtures is at most the largest of their parts'. If rows are rounded again,
        the u differ, and so may the roundings: c + 2 sqrt(d).
        """
        slack = 1 if plan.beta == 0 else 2
        return distance * self.scale + slack * math.sqrt(plan.dim)

    def local_stddev(self, plan: RoundingPlan) -> float:
        """Return sigma of one client's noise, in steps of the grid."""
        return self.noise_multiplier * self.noise_sensitivity(plan) / math.sqrt(self.least_noises)

    def law(self, shape: torch.Size) -> Law:
        """Return the law of the noise.

        Two numbers of sigma steps are equal with a chance below 1 / (2 sqrt(pi) sigma), but for
        noise of less than a step, where the most frequent number bounds it.
        """
        dim = shape.numel() if self.per == "message" else shape[-1]
        single = max(0.5, self.local_stddev(self.plan_for(1)))
        equal = min(0.8, 1 / (2 * math.sqrt(math.pi) * single) + math.exp(-9 * single**2))
        sd = self.local_stddev(self.plan_for(dim)) / self.scale
        return Law(sd, 1 / self.scale, math.log(equal), is_discrete=True)

    def unit_bound(self, dim: int) -> float:
        """Return the L2 norm that no rounded unit of `dim` numbers passes."""
        return self.plan_for(dim).norm_bound / self.scale

    def multiplier(self, dim: int) -> float:
        """Return 1 / sqrt(2 rho), the multiplier of the Gaussian with this zCDP. The gap between a
        sum of discrete Gaussians and one discrete Gaussian is counted in."""
        plan = self.plan_for(dim)
        sigma, bound = self.local_stddev(plan), sensitivity_l2(plan.norm_bound, self.adjacency)
        return 1 / math.sqrt(2 * rho_of_sum(bound, sigma, self.least_noises, plan.dim))

    def noise_met(self, influence: Influence, holders: int, dim: int, num_rows: int) -> Reach:
        """Return the noise of the sum over the moves of all holders, which add up in one vector."""
        rows = self.rows_moved(influence, num_rows)
        plan = self.plan_for(dim if self.per == "message" else dim // num_rows)
        steps = self.widest_distance(plan) * math.sqrt(rows)
        if influence.moved_l2 is not None:
            whole = replace(plan, dim=rows * plan.dim)
            steps = min(steps, self.moved_steps(influence.moved_l2, whole))
        sigma = self.local_stddev(plan)
        rho = rho_of_sum(holders * steps, sigma, self.least_noises, rows * plan.dim)
        return Reach(1 / math.sqrt(2 * rho), removal=influence.moved is not None)

    def planned_reach(self, influence: Influence, holders: int, num_rows: int) -> Reach:
        """Return the `reach` before a grid is chosen. Rounding adds as much to the distance as to
        the noise that is sized for it."""
        if influence.rows == 0 or holders == 0:
            return Reach(None, 0)
        clip, widest = sensitivity_l2(self.clip_l2, self.adjacency), 2 * self.clip_l2
        sized = clip if self.moved_l2 is None else min(self.moved_l2, widest)
        distance = widest * math.sqrt(self.rows_moved(influence, num_rows))
        if influence.moved_l2 is not None:
            distance = min(distance, influence.moved_l2)
        met = self.noise_multiplier * sized / distance / holders
        return Reach(met, removal=influence.moved is not None)

    def apply(self, values: Tensor, noise: NoiseSource, clients: Clients, stream: Stream) -> Tensor:
        """Raise PrivacyError, because a share of the noise protects only a masked sum."""
        raise PrivacyError("distributed noise protects only a masked sum; nothing was sent")

    def on_grid(self, plan: SumPlan) -> tuple[Self, Grid]:
        """Return the finest grid that fits the ring and keeps the tables of the sampler small."""
        if plan.weighted_by is not None:
            raise ConfigError(
                f"{plan.field}: distributed noise cannot be planned for a sum weighted by the "
                f"private {plan.weighted_by}; let clients count alike (method.weighting: clients)"
            )
        dim = plan.unit_dim(self.per)
        size = self.clip_l2 if self.moved_l2 is None else min(self.moved_l2, self.clip_l2) / 16
        scale = 2.0 ** math.ceil(math.log2(COMFORTABLE_SIGMA / size))
        while scale * size >= 1:
            tried = replace(self, scale=scale)
            sigma = tried.local_stddev(tried.plan_for(dim))
            # Where rounding would begin to count in the sensitivity, larger tables are the lesser
            # evil.
            fine = scale * size >= 4 * math.sqrt(dim)
            if LEAST_SIGMA <= sigma <= (COMFORTABLE_SIGMA if fine else LARGEST_SIGMA):
                try:
                    return tried, tried._noisy_grid(plan, sigma)
                except ConfigError:
                    pass  # it could overflow: try a coarser grid
            scale /= 2
        raise ConfigError(
            f"{plan.field}: no grid of the {plan.ring.bits}-bit ring holds the sum of "
            f"{plan.num_clients} clients with a noise multiplier of {self.noise_multiplier:.4g}; "
            "change the noise, take ring_bits: 64, or let target_epsilon speak of a smaller unit"
        )

    def _noisy_grid(self, plan: SumPlan, sigma: float) -> Grid:
        bound = self.clip_l2 + 1 / self.scale
        return Grid(
            plan.num_clients, bound, self.scale, noise_sigma=sigma, dim=plan.dim, ring=plan.ring
        )

    def to_ring(
        self,
        values: Tensor,
        weights: Tensor | None,
        noise: NoiseSource,
        clients: Clients,
        stream: Stream,
        grid: Grid,
    ) -> RingArray:
        """Return the clipped, rounded and noised values as ring elements, a row per client."""
        return grid.ring.from_signed(_discretise_values(self, values, noise, clients, stream))

    def redraw(
        self, shape: torch.Size, noise: NoiseSource, clients: Clients, stream: Stream
    ) -> Tensor:
        """Return the noise of an array of this shape, drawn again from the source."""
        plan = self.plan(torch.empty(shape))
        rows = (math.prod(shape) // plan.dim, plan.dim)
        draws = noise.random_bytes(clients, (*stream, "discrete"))
        drawn = torch.from_numpy(sample(self.local_stddev(plan), rows, draws))
        return drawn.double().reshape(shape) / float(self.scale)

    def words(self) -> str:
        """Return the rule in words."""
        return (
            f"each {self.per} clipped to L2 norm {self.clip_l2:g}; the sum carries discrete "
            f"Gaussian noise of {self.noise_multiplier:.4g} times the sensitivity"
        )

    @classmethod
    def booked_words(cls, mechanism: Mechanism, clip_l2: float) -> str:
        """Return a booked mechanism of this rule in words."""
        return (
            f"Each {mechanism.per} clipped to L2 norm {clip_l2:g}, under masks; the sum carries "
            f"discrete Gaussian noise, noise multiplier {mechanism.noise_multiplier:.4g}."
        )


def _discretise_values(
    rule: DistributedDiscrete, values: Tensor, noise: NoiseSource, clients: Clients, stream: Stream
) -> NDArray[np.int64]:
    """Return every unit clipped, rounded to the grid, and given its share of the noise.

    Seeded noise is drawn client by client, so that it does not depend on who shares a host.
    """
    if not noise.protects and len(clients) > 1:
        numbers = clients.numbers()
        parts = [
            _discretise_values(rule, values[i : i + 1], noise, Clients.of([n]), stream)
            for i, n in enumerate(numbers)
        ]
        return np.concatenate(parts)
    plan = rule.plan(values)
    units = clip_l2(values, rule.clip_l2, rule.per).reshape(-1, plan.dim).numpy()
    draws = noise.generator(clients, (*stream, "rounding"))
    bits, sigma = noise.random_bytes(clients, (*stream, "discrete")), rule.local_stddev(plan)
    noisy, step = np.empty(units.shape, np.int64), max(1, BLOCK_NUMBERS // plan.dim)
    for start in range(0, len(units), step):
        part = noisy[start : start + step]
        part[:] = round_rows(units[start : start + step], plan, draws)
        part += sample(sigma, part.shape, bits)
    return noisy.reshape(len(values), -1)


BLOCK_NUMBERS: Final = 1 << 16
"""So many numbers are rounded and noised at a time, to stay in the cache."""

DEFAULT_BETA: Final = math.exp(-0.5)

# A row fails all tries with probability at most beta^1000, below 2^-700 at the default.
_MAX_TRIES: Final = 1000

# Norms are float64: rows may pass the clip by this share of it, and the bound counts it in.
_SLACK: Final = 1e-9


@dataclass(frozen=True)
class RoundingPlan:
    """A plan for rows of `dim` coordinates, clipped to `clip_l2`, times `scale`, rounded to
    integers."""

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
        """Return the L2 norm that no rounded row passes, in steps of the grid.

        With c = clip_l2 scale and what float64 may add to it, the bound is

            min { c + sqrt(d),  sqrt(c^2 + d/4 + sqrt(2 ln(1/beta)) (c + sqrt(d)/2)) }.

        The first term holds always. The second holds after trying again, at most a fraction beta of
        times. It is the sensitivity that `rho_of_sum` takes if neighbours differ by one client.
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
    """Round scale * row up or down at random, without bias, and again while a row passes the bound.

    The bound holds for every outcome of `rng`, and the privacy proof asks for no more: this
    randomness keeps the mean honest and protects nothing, so it need not be a CSPRNG. With beta 0
    the bound holds by arithmetic and no row is tried again: where neighbours' distances count, both
    must be rounded by the same draws.
    """
    scaled = np.asarray(rows, np.float64) * plan.scale
    _require_clipped(scaled, plan)
    whole = _round_once(scaled, rng)
    if plan.beta == 0:
        return whole.astype(np.int64)
    for _ in range(_MAX_TRIES):
        above = np.flatnonzero(_row_norms(whole) > plan.norm_bound)
        if not above.size:
            return whole.astype(np.int64)
        whole[above] = _round_once(scaled[above], rng)
    raise RunFailed(f"{above.size} rows passed the norm bound {plan.norm_bound:g} on every try")


def _round_once(scaled: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    floor = np.floor(scaled)
    return floor + (rng.random(scaled.shape) < scaled - floor)


def _row_norms(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    norms: NDArray[np.float64] = np.linalg.norm(rows, axis=1)
    return norms


def _require_clipped(scaled: NDArray[np.float64], plan: RoundingPlan) -> None:
    if scaled.ndim != 2 or scaled.shape[1] != plan.dim:
        raise PrivacyError(f"rows have shape {scaled.shape}, planned were (clients, {plan.dim})")
    # Written so that NaN, which compares false with everything, is refused too.
    clipped = _row_norms(scaled) <= plan.clip_l2 * plan.scale * (1 + _SLACK)
    if not clipped.all():
        raise PrivacyError(
            f"{np.count_nonzero(~clipped)} of {len(scaled)} rows are not clipped to the planned "
            f"L2 norm {plan.clip_l2:g}"
        )


DEFENCE = DistributedDiscrete
