"""Masked fields: how a private sum goes to the integer ring, with or without noise, and comes back.

By default a value is clipped and noised as its defence says, weighted, quantised and masked. A
defence that needs masks has its own way to the ring: one client's noise does not suffice then, the
sum over the least number of honest survivors carries what was planned, and no smaller cohort is
ever unmasked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from securefg.foundation.errors import RoundAborted
from securefg.privacy.defence import Defence, Stream
from securefg.privacy.noise import NoiseSource
from securefg.protocol.codec import Clients
from securefg.secagg.quantise import Grid
from securefg.secagg.ring import RingArray


@dataclass(frozen=True)
class MaskedField:
    """One field's way to the ring: its rule, and a grid that its sum cannot overflow.

    recipients  into how many parts it falls, each opened by one client; 0: the server opens it
    """

    rule: Defence
    grid: Grid
    recipients: int = 0

    def encode(
        self,
        values: Tensor,
        weights: Tensor | None,
        noise: NoiseSource,
        clients: Clients,
        stream: Stream,
    ) -> RingArray:
        """A row of ring elements per client, ready to be masked."""
        return self.rule.to_ring(values, weights, noise, clients, stream, self.grid)

    def require_bound(self, total: RingArray, num_clients: int, name: str) -> None:
        """No sum of so many honest uploads passes their bounds; one that does holds something else,
        and nobody can tell whose."""
        grid = replace(self.grid, num_clients=num_clients)
        largest = int(np.abs(self.grid.ring.to_signed(total)).max(initial=0))
        if largest > grid.worst_case:
            raise RoundAborted(
                f"secure aggregation: a sum of {name} over {num_clients} clients passes what all "
                "of them could send; one or more sent numbers outside the bound, and the sum is "
                "not used"
            )

    def decode(self, total: RingArray, shape: torch.Size) -> Tensor:
        return torch.from_numpy(self.grid.dequantise(total).astype(np.float32)).reshape(shape)

    def facts(self) -> dict[str, Any]:
        """For the summary: the grid, and how far it can move a sum."""
        return {
            "opened_by": "recipients" if self.recipients else "server",
            "ring_bits": self.grid.ring.bits,
            "scale": self.grid.scale,
            "value_bound": self.grid.clip,
            "largest_error_of_a_sum": self.grid.error_bound(
                self.grid.num_clients, stochastic=self.rule.rounds_at_random
            ),
        }
