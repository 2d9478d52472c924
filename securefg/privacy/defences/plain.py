"""No defence: y = x. It protects nothing, and the ledger books epsilon = infinity.

Under masks the server reads a sum in place of single values. The sum is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from securefg.privacy.defence import Asked, Defence, Stream
from securefg.privacy.ledger import Mechanism
from securefg.privacy.noise import NoiseSource
from securefg.protocol.codec import Clients


@dataclass(frozen=True)
class Plain(Defence):
    """A value that leaves as it is."""

    name = "plain"
    label = "No noise"
    about = "every upload arrives as it is"
    noise_in = "nowhere"

    @classmethod
    def settle(cls, asked: Asked) -> Self:
        """Return the rule, which has no settings."""
        return cls()

    def apply(self, values: Tensor, noise: NoiseSource, clients: Clients, stream: Stream) -> Tensor:
        """Return the values unchanged."""
        return values

    def stddev(self, shape: torch.Size) -> float:
        """Return 0, because nothing is added."""
        return 0.0

    def fact(self, field: str, dim: int, num_rows: int, protects: bool) -> Mechanism:
        """Return a mechanism without noise, for which every epsilon is infinite."""
        return Mechanism(field=field, rule=self.name)

    def words(self) -> str:
        """Return the rule in words."""
        return "sent as it is"


DEFENCE = Plain
