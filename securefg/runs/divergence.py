"""Training that went out of hand: found where a released model or a loss is not finite.

Uploads are checked where they leave their client, by the channel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from torch import Tensor

from securefg.federation.evaluation import LocalScore, Scores
from securefg.foundation.errors import Diverged
from securefg.protocol.messages import Message

DIVERGED: Final = "diverged: "
"""How the reason begins for which such a run stopped."""


def require_finite_model(round: int, release: Message) -> None:
    """Raise `Diverged` where a released model holds NaN or infinity."""
    for name, value in release.values().items():
        if isinstance(value, Tensor) and value.is_floating_point() and not value.isfinite().all():
            raise Diverged.at(round, f"the released {release.kind}.{name}")


def require_finite_losses(round: int, scores: Scores, local: Sequence[LocalScore]) -> None:
    """Raise Diverged if a loss is not finite. The error names the client if it is known whose loss
    it is."""
    for score in local:
        for name in ("train_loss", "val_loss"):
            if not math.isfinite(getattr(score, name)):
                raise Diverged.at(round, f"client {score.client}'s {name.replace('_', ' ')}")
    for name in ("train_loss", "val_loss", "val_accuracy", "test_accuracy"):
        if not math.isfinite(getattr(scores, name)):
            raise Diverged.at(round, f"the {name.replace('_', ' ')}")


def only_finite(figures: dict[str, float]) -> dict[str, float]:
    """Return a method's own figures, without those that could not be computed."""
    return {name: value for name, value in figures.items() if math.isfinite(value)}
