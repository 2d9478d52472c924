"""Masked fields: how a private sum goes to the integer ring, with or without noise, and comes back.

    plain, local_gaussian   (clip, noise as the rule says) -> weight -> quantise -> mask
    distributed_discrete    clip -> scale -> round at random -> discrete Gaussian -> mask

Under the second, one client's noise does not suffice; the sum over the least number of honest
survivors carries what was planned, and no smaller cohort is ever unmasked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from securefg.foundation.errors import RoundAborted
from securefg.privacy.discrete_gaussian import sample
from securefg.privacy.noise import NoiseSource
from securefg.privacy.rounding import round_rows
from securefg.privacy.rules import DistributedDiscrete, Rule
from securefg.privacy.stages import clip_l2
from securefg.protocol.codec import Clients
from securefg.secagg.quantise import Grid
from securefg.secagg.ring import RingArray

Stream = tuple[str | int, ...]


@dataclass(frozen=True)
class MaskedField:
    """One field's way to the ring: its rule, and a grid that its sum cannot overflow.

    recipients  into how many parts it falls, each opened by one client; 0: the server opens it
    """

    rule: Rule
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
        if isinstance(self.rule, DistributedDiscrete):
            whole = _discrete(self.rule, values, noise, clients, stream)
            return self.grid.ring.from_signed(whole)
        protected = self.rule.apply(values, noise, clients, stream).double()
        if weights is not None:
            protected = protected * weights.double().reshape(-1, *[1] * (values.dim() - 1))
            if values.dtype == torch.float64:  # the product of two large numbers may overflow
                protected = protected.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        return self.grid.quantise(protected.reshape(len(values), -1).numpy())

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
        rounding = isinstance(self.rule, DistributedDiscrete)
        return {
            "opened_by": "recipients" if self.recipients else "server",
            "ring_bits": self.grid.ring.bits,
            "scale": self.grid.scale,
            "value_bound": self.grid.clip,
            "largest_error_of_a_sum": self.grid.error_bound(
                self.grid.num_clients, stochastic=rounding
            ),
        }


def _discrete(
    rule: DistributedDiscrete, values: Tensor, noise: NoiseSource, clients: Clients, stream: Stream
) -> NDArray[np.int64]:
    """Every unit clipped, rounded to the grid, and given its share of the noise.

    Seeded noise is drawn client by client, so that it does not depend on who shares a host.
    """
    if not noise.protects and len(clients) > 1:
        numbers = clients.numbers()
        parts = [
            _discrete(rule, values[i : i + 1], noise, Clients.of([n]), stream)
            for i, n in enumerate(numbers)
        ]
        return np.concatenate(parts)
    plan = rule.plan(values)
    units = clip_l2(values, rule.clip_l2, rule.per).reshape(-1, plan.dim).numpy()
    draws = noise.generator(clients, (*stream, "rounding"))
    rounded = round_rows(units, plan, draws)
    added = sample(
        rule.local_stddev(plan), rounded.shape, noise.random_bytes(clients, (*stream, "discrete"))
    )
    return (rounded + added).reshape(len(values), -1)
