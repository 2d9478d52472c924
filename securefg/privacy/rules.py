"""Rules: what the channel does to a private field before it leaves, and the release it books.

Two rules exist without masking: `plain` (nothing; books epsilon = infinity) and `local_gaussian`
(clip, then Gaussian noise that suffices alone: every single upload is protected).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from securefg.codec import Clients
from securefg.privacy.noise import NoiseSource
from securefg.privacy.stages import Adjacency, Per, clip_l2, sensitivity_l2


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
    """y = clip(x, C) + N(0, (z S)^2), with S the sensitivity of the unit (2C or C) and z the
    noise multiplier. Protects one row, or one client's whole message, against everybody who
    sees the upload, per release; the ledger composes the releases.
    """

    clip_l2: float
    noise_multiplier: float
    per: Per
    adjacency: Adjacency = "replace_one"
    name: Literal["local_gaussian"] = "local_gaussian"

    @property
    def stddev(self) -> float:
        return self.noise_multiplier * sensitivity_l2(self.clip_l2, self.adjacency)

    def apply(
        self, values: Tensor, noise: NoiseSource, clients: Clients, stream: tuple[str | int, ...]
    ) -> Tensor:
        clipped = clip_l2(values, self.clip_l2, self.per)
        normals = noise.normal(values.shape, clients, stream).to(clipped.device)
        return clipped.add_(normals, alpha=self.stddev).to(values.dtype)

    def words(self) -> str:
        return (
            f"each {self.per} clipped to L2 norm {self.clip_l2:g}, "
            f"Gaussian noise of standard deviation {self.stddev:.4g} added"
        )


Rule = Plain | LocalGaussian
