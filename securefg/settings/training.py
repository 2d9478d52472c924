"""How long and how the clients train."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from securefg.foundation.settings import Settings
from securefg.settings.privacy import DpSgdSettings


class TrainingSettings(Settings):
    """How long and how the clients train."""

    rounds: int = Field(300, ge=1, description="at most so many rounds")
    local_epochs: int = Field(10, ge=1, description="epochs per client and round")
    lr: float = Field(0.01, gt=0)
    weight_decay: float = Field(5e-4, ge=0)
    participation: float = Field(
        1.0, gt=0, le=1, description="share of the clients asked per round"
    )
    patience: int | None = Field(
        30, ge=1, description="stop after so many rounds without a better validation score"
    )
    monitor: Literal["val_accuracy", "val_loss", "either"] = Field(
        "either",
        description="what counts as better: the accuracy, the loss, or one of the two (the kept "
        "model is then the most accurate one)",
    )
    dp_sgd: DpSgdSettings | None = Field(
        None, description="noise in local training, for methods whose samples meet in no gradient"
    )
