"""The `privacy.secure_aggregation` part of a config."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveFloat

from securefg.foundation.settings import Settings
from securefg.secagg.graph_parameters import Threat


class SecureAggregationSettings(Settings):
    """Masking of what the server needs only the sum of; `{}` takes all defaults."""

    fields: tuple[str, ...] | None = Field(
        None, description="Message.field names to mask; by default all that are sums"
    )
    ring_bits: Literal[32, 64] = 32
    value_bound: PositiveFloat = Field(
        16.0, description="coordinates are clipped to this before they go to the grid"
    )
    scale: PositiveFloat | None = Field(
        None, description="steps of the grid per unit; by default the finest that cannot overflow"
    )
    corrupt: float = Field(0.05, ge=0, lt=1, description="share of clients that may collude")
    dropout: float = Field(0.34, ge=0, lt=1, description="share of clients that may fall silent")
    malicious: bool = Field(False, description="survivors sign what the server told them")
    min_clients: int = Field(3, ge=3, description="smaller cohorts are refused by every client")
    min_holders: int = Field(
        2, ge=1, description="a node's sum is released from so many holders on"
    )
    on_abort: Literal["skip", "stop"] = Field(
        "skip", description="go on with the next round, or end the run"
    )

    @property
    def threat(self) -> Threat:
        return Threat(self.corrupt, self.dropout, self.malicious)
