"""Laplace noise at each client, a defence of your own in one file: y = clip(x, C) + Lap(2 C z).

Every unit is clipped to the L1 norm C (`privacy.clip_l2`; it bounds the L2 norm too). Two clipped
values lie at most 2C apart, so that noise of scale b = 2 C z gives pure differential privacy with
epsilon_0 = 1 / z (Dwork et al. 2006) and zCDP with rho = epsilon_0^2 / 2 (Bun and Steinke 2016).
The ledger books 1 / sqrt(2 rho) = z. It protects one row, or one client's whole message, against
everybody who sees the upload.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor

from securefg.foundation.errors import ConfigError
from securefg.privacy.defence import Asked, NoisyUpload, Stream
from securefg.privacy.influence import Influence
from securefg.privacy.law import Floats, Law
from securefg.privacy.ledger import Reach
from securefg.privacy.noise import NoiseSource
from securefg.protocol.codec import Clients


@dataclass(frozen=True)
class Laplace(NoisyUpload):
    """Laplace noise that suffices alone."""

    name = "laplace"
    label = "Laplace noise"
    about = "every client adds Laplace noise to its own upload"
    accounting = "zcdp"
    norm_order = 1
    sd_per_scale = math.sqrt(2)

    @classmethod
    def settle(cls, asked: Asked) -> Self:
        if asked.adjacency != "replace_one":
            raise ConfigError(
                f"privacy.adjacency: found {asked.adjacency}; expected replace_one for laplace; "
                "leave it out"
            )
        return replace(super().settle(asked), moved_l2=None)  # an L2 distance bounds no L1 norm

    @property
    def scale(self) -> float:
        """The scale b of the noise; its standard deviation is sqrt(2) b."""
        return 2 * self.clip_l2 * self.noise_multiplier

    @property
    def step(self) -> float:
        """The power of two, near b / 2^10, to whose multiples uploads are rounded."""
        return 2.0 ** (math.floor(math.log2(self.scale)) - 10)

    def apply(self, values: Tensor, noise: NoiseSource, clients: Clients, stream: Stream) -> Tensor:
        exact = values.double().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        axes = (-1,) if self.per == "row" and exact.dim() > 1 else tuple(range(1, exact.dim()))
        norms = exact.abs().sum(axes, keepdim=True) if axes else exact.abs()
        clipped = exact * (self.clip_l2 / norms.clamp_min(self.clip_l2))
        # (N1^2 + N2^2) / 2 is exponential, and the difference of two such numbers is Laplace.
        squares = noise.normal(torch.Size((*values.shape, 4)), clients, stream).square()
        drawn = (squares[..., 0] + squares[..., 1] - squares[..., 2] - squares[..., 3]) / 2
        noisy = clipped + self.scale * drawn.to(clipped.device)
        if not noise.protects:
            return noisy.to(values.dtype)
        return ((noisy / self.step).round() * self.step).to(values.dtype)  # no low bits of floats

    def law(self, shape: torch.Size) -> Law:
        return Law(
            sd=math.sqrt(2) * self.scale,
            step=self.step,
            log_equal=math.log(self.step / (4 * self.scale)),
            log_tail=_log_tail,
        )

    def multiplier(self, dim: int) -> float:
        return self.noise_multiplier

    def noise_met(self, influence: Influence, holders: int, dim: int, num_rows: int) -> Reach:
        rows = self.rows_moved(influence, num_rows)  # each with noise of its own: rho adds up
        return Reach(self.noise_multiplier / math.sqrt(rows), holders)

    def largest(self, bound: float) -> float:
        return self.clip_l2 + 40 * self.scale

    def words(self) -> str:
        return (
            f"each {self.per} clipped to L1 norm {self.clip_l2:g}, Laplace noise of scale "
            f"{self.scale:.4g} added"
        )


def _log_tail(x: Floats) -> Floats:
    """log P[noise > x standard deviations] = log(e^(-sqrt(2) x) / 2)."""
    found: Floats = math.log(0.5) - math.sqrt(2) * np.asarray(x, np.float64)
    return found


DEFENCE = Laplace
