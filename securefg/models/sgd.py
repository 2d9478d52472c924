"""Plain gradient descent with L2 regularisation, with the same face as `Adam`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sgd:
    """w -= lr (g + decay w); one decay per parameter. It keeps no state."""

    parameters: Sequence[Tensor]
    weight_decay: Sequence[float]
    lr: float

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        for w, g, decay in zip(self.parameters, gradients, self.weight_decay, strict=True):
            w.sub_(g.add(w, alpha=decay) if decay else g, alpha=self.lr)

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Nothing to restore."""
