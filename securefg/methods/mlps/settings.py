"""Settings of perceptrons that train alone."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from securefg.settings.methods import MethodSettings


class Settings(MethodSettings):
    """Appendix A.2.2 of the paper. `training.local_epochs` counts updates per round."""

    name: Literal["mlps"] = "mlps"
    hidden: int = Field(64, ge=1, description="width of the hidden layer")
    batch_size: int | None = Field(5, ge=1, description="samples per update; null: all")
