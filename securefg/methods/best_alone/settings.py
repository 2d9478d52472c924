"""Settings of the best of several methods that need nobody else."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from securefg.methods.two_sums.settings import FeatureSettings


class Settings(FeatureSettings):
    """Features and head of the own sums are as of two_sums."""

    name: Literal["best_alone"] = "best_alone"
    candidates: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        description="the methods that are tried, the first by default; null: all of them",
    )
    epochs: int = Field(100, ge=1, description="epochs of the GCN among the candidates")
