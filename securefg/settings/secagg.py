"""The `privacy.secure_aggregation` part of a config."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from pydantic import Field, PositiveFloat

from securefg.foundation.errors import ConfigError
from securefg.foundation.settings import Settings

_ROUNDING: Final = 1e-14


def colluders_in(cohort: int, population: int, corrupt: float) -> int:
    """Return the largest number of colluders that a cohort can have: min(cohort, floor(corrupt N)).

    The server picks the cohort out of all N clients, so it can pick every colluder.
    """
    return min(cohort, math.floor((corrupt + _ROUNDING) * population))


@dataclass(frozen=True)
class Threat:
    """At most `corrupt` of all clients collude with the server, at most `dropout` of those asked
    fall silent; None: a third of a small cohort, and little more than a tenth of a large one.

    population  how many clients there are: a server that picks whom to ask can pick all colluders
                among them; by default those that are asked
    """

    corrupt: float = 0.05
    dropout: float | None = None
    population: int | None = None

    def __post_init__(self) -> None:
        silent = self.dropout or 0.0
        if not (0 <= self.corrupt < 1 and 0 <= silent < 1 and self.corrupt + 2 * silent <= 0.9):
            raise ConfigError(
                f"privacy.secure_aggregation: found corrupt {self.corrupt} and dropout {silent}; "
                "expected fractions with corrupt + 2 dropout <= 0.9"
            )

    def num_corrupt(self, num_clients: int) -> int:
        """Return the number of colluders in a cohort of `num_clients`."""
        return colluders_in(num_clients, self.population or num_clients, self.corrupt)

    def num_dropped(self, num_clients: int) -> int:
        """Return how many of a cohort may fall silent."""
        if self.dropout is None:
            agreeing = (num_clients + self.num_corrupt(num_clients)) // 2 + 1
            return max(0, min(num_clients // 3, 2 + num_clients // 10, num_clients - agreeing))
        return math.floor((self.dropout + _ROUNDING) * num_clients)

    def least_cohort(self, planned: int) -> int:
        """Fewer are never summed, where `planned` are to be asked: all but those that may fall
        silent, and at least two who do not collude."""
        everybody = self.population or planned
        return max(planned - self.num_dropped(planned), self.num_corrupt(everybody) + 2)


class SecureAggregationSettings(Settings):
    """Masking of what the server needs only the sum of; `{}` takes all defaults."""

    renamed: ClassVar[Mapping[str, str]] = {"fields": "masked_fields"}

    masked_fields: tuple[str, ...] | None = Field(
        None, description="Message.field names to mask; by default all that are sums"
    )
    ring_bits: Literal[32, 64] = 32
    value_bound: PositiveFloat = Field(
        16.0, description="bound to which coordinates are clipped before quantisation"
    )
    scale: PositiveFloat | None = Field(
        None, description="quantisation steps per unit; by default the finest that cannot overflow"
    )
    corrupt: float = Field(
        0.05, ge=0, lt=1, description="fraction of all clients that may collude with the server"
    )
    dropout: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="fraction of the clients asked that may drop out; "
        "by default a third of few clients, a tenth of many",
    )
    malicious: bool = Field(
        True,
        description="the server may lie: survivors sign what they were told; "
        "false saves a stage and trusts the server to follow the protocol",
    )
    keys: Literal["hybrid", "classical"] = Field(
        "hybrid",
        description="hybrid: X25519 and ML-KEM-768 together, so that what is recorded today stays "
        "closed if one of them breaks; classical: X25519 alone",
    )
    min_clients: int = Field(3, ge=3, description="smaller cohorts are refused by every client")
    min_holders: int = Field(
        2, ge=1, description="least number of holders of a node for its sum to be released"
    )
    on_abort: Literal["skip", "stop"] = Field(
        "skip", description="after an aborted round: continue with the next one, or end the run"
    )

    def threat_among(self, population: int) -> Threat:
        """Where the server picks whom to ask out of so many."""
        return Threat(self.corrupt, self.dropout, population)
