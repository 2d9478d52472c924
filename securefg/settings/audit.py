"""What a run carries for its audit."""

from __future__ import annotations

from pydantic import Field

from securefg.foundation.settings import Settings


class AuditSettings(Settings):
    """What a run carries for its audit. Runs of other seeds with the same `seed` here have the same
    canaries, each with a coin of its own."""

    canaries: int = Field(0, ge=0, description="nodes inserted before the data is dealt out")
    seed: int = Field(0, ge=0, description="draws what the canaries look like")
    smallest_gain: float = Field(
        0.05,
        gt=0,
        le=1,
        description="the smallest gain of an attack that matters; smaller ones may hide",
    )
