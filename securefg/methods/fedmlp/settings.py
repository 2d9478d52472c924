"""Settings of FedMLP."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from securefg.settings.methods import MethodSettings


class Settings(MethodSettings):
    """Appendix A.2.2 of the paper. `training.local_epochs` is its I: local steps per round."""

    name: Literal["fedmlp"] = "fedmlp"
    hidden: int = Field(64, ge=1, description="width of the hidden layer")
    batch_size: int | None = Field(5, ge=1, description="samples per local step; null: all")
    upload: Literal["model", "update"] = Field(
        "model",
        description="upload the trained weights, or their change, which needs a smaller clip",
    )
