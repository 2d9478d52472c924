"""The `privacy.secure_aggregation` part of a config."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import Field, PositiveFloat

from securefg.foundation.errors import ConfigError
from securefg.foundation.settings import Settings

_ROUNDING: Final = 1e-14


@dataclass(frozen=True)
class Threat:
    """At most `corrupt` of the clients collude with the server, at most `dropout` fall silent.

    A `malicious` server may also tell different clients different survivors; that takes a higher
    threshold, so that no two disjoint sets of answers open both secrets of one client.
    """

    corrupt: float = 0.05
    dropout: float = 0.05
    malicious: bool = False

    def __post_init__(self) -> None:
        silent = 2 * self.dropout if self.malicious else self.dropout
        if not (0 <= self.corrupt < 1 and 0 <= self.dropout < 1 and self.corrupt + silent <= 0.9):
            raise ConfigError(
                f"corrupt {self.corrupt} and dropout {self.dropout}: wanted fractions with "
                f"corrupt + {'2 dropout' if self.malicious else 'dropout'} <= 0.9"
            )

    def num_corrupt(self, num_clients: int) -> int:
        return math.floor((self.corrupt + _ROUNDING) * num_clients)

    def num_dropped(self, num_clients: int) -> int:
        return math.floor((self.dropout + _ROUNDING) * num_clients)

    def threshold_above(self, num_corrupt: int, num_holders: int) -> int:
        """The least t that keeps a secret: t > c; against a malicious server 2t > holders + c."""
        least = (num_holders + num_corrupt) // 2 + 1 if self.malicious else num_corrupt + 1
        return max(least, 2)


class SecureAggregationSettings(Settings):
    """Masking of what the server needs only the sum of; `{}` takes all defaults."""

    fields: tuple[str, ...] | None = Field(
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
        0.05, ge=0, lt=1, description="fraction of the clients that may collude with the server"
    )
    dropout: float = Field(
        0.34, ge=0, lt=1, description="fraction of the clients that may drop out"
    )
    malicious: bool = Field(False, description="survivors sign what the server told them")
    min_clients: int = Field(3, ge=3, description="smaller cohorts are refused by every client")
    min_holders: int = Field(
        2, ge=1, description="least number of holders of a node for its sum to be released"
    )
    on_abort: Literal["skip", "stop"] = Field(
        "skip", description="after an aborted round: continue with the next one, or end the run"
    )

    @property
    def threat(self) -> Threat:
        return Threat(self.corrupt, self.dropout, self.malicious)
