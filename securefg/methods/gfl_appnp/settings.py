"""Settings of GFL-APPNP."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from securefg.settings.methods import MethodSettings


class Settings(MethodSettings):
    """Appendix A.2.2 of the paper. `training.local_epochs` is its I: local steps per round."""

    name: Literal["gfl_appnp"] = "gfl_appnp"
    hidden: int = Field(64, ge=1, description="width of the hidden layer")
    teleport: float = Field(0.1, gt=0, le=1, description="alpha of APPNP")
    steps: int = Field(10, ge=0, description="M: number of propagation steps")
    jacobian: Literal["full", "none"] = Field(
        "full", description="compensate gradients for the neighbours; false is the paper's V2"
    )
    jacobian_noise: float = Field(
        0.0,
        ge=0,
        description="standard deviation of noise on every entry of the Jacobian, unclipped (V1: 1)",
    )
    batch_size: int | None = Field(None, ge=1, description="samples per local step; null: all")
    represent: Literal["all", "train"] = Field(
        "all", description="samples over which h_j is the mean, where each sample has its own label"
    )
    upload: Literal["model", "update"] = Field(
        "model",
        description="upload the trained weights, or their change, which needs a smaller clip",
    )
    sums: Literal["server", "recipients"] = Field(
        "server",
        description="who computes C_k: the server from every h_j, or only client k, under masks",
    )
    scored: Literal["nodes", "samples"] = Field(
        "nodes",
        description="score a node by the mean over its samples, or every sample by itself (SNC)",
    )
