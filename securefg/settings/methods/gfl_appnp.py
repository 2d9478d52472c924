"""Settings of GFL-APPNP."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from securefg.settings.methods.base import MethodSettings


class Settings(MethodSettings):
    """Appendix A.2.2 of the paper. `training.local_epochs` is its I: local steps per round."""

    name: Literal["gfl_appnp"] = "gfl_appnp"
    hidden: int = Field(64, ge=1)
    teleport: float = Field(0.1, gt=0, le=1, description="alpha of APPNP")
    steps: int = Field(10, ge=0, description="M: steps of the propagation")
    jacobian: Literal["full", "none"] = Field(
        "full", description="compensate gradients for the neighbours, or not (the paper's V2)"
    )
    jacobian_noise: float = Field(
        0.0,
        ge=0,
        description="standard deviation on every entry of the Jacobian (V1: 1), unclipped",
    )
    batch_size: int | None = Field(None, ge=1, description="samples per local step; null: all")
    represent: Literal["all", "train"] = Field(
        "all", description="the samples whose mean is h_j, where samples are labelled apart"
    )
    upload: Literal["model", "update"] = Field(
        "model", description="the trained weights, or their change: the same sum, a smaller clip"
    )
    sums: Literal["server", "recipients"] = Field(
        "server",
        description="who forms C_k: the server from every h_j, or client k alone, under masks",
    )
