"""Local training of a GCN: some epochs of Adam on one client's own graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from securefg.models.adam import Adam
from securefg.models.gcn import GcnShape, Operator, gcn
from securefg.models.sparse import FeatureMatrix


@dataclass(frozen=True)
class Targets:
    """Nodes, their classes, and the factor of their cross-entropy in the loss."""

    nodes: Tensor
    classes: Tensor
    factor: float = 1.0


class GcnTrainer:
    """Two weight matrices under Adam; L2 regularisation on the first alone, as in the GCN paper."""

    def __init__(self, shape: GcnShape, vector: Tensor, lr: float, weight_decay: float) -> None:
        self._shape = shape
        self.weights = tuple(w.clone().requires_grad_() for w in shape.split(vector))
        self._adam = Adam(self.weights, (weight_decay, 0.0), lr)

    def train(
        self,
        epochs: int,
        adjacency: Operator,
        features: FeatureMatrix,
        targets: list[Targets],
        dropout: float,
        stream: torch.Generator,
    ) -> None:
        """Minimise sum_t factor_t * mean CE_t, full batch; a set without nodes adds nothing."""
        present = [target for target in targets if len(target.nodes)]
        for _ in range(epochs if present else 0):
            _, logits = gcn(self.weights, adjacency, features, dropout, stream)
            loss = logits.new_zeros(())
            for target in present:
                loss = loss + target.factor * cross_entropy(logits[target.nodes], target.classes)
            self._adam.step(torch.autograd.grad(loss, self.weights))

    def vector(self) -> Tensor:
        return torch.cat([w.detach().flatten() for w in self.weights])

    def state(self) -> dict[str, Tensor]:
        return {"weights": self.vector(), **self._adam.state()}

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor]) -> None:
        for own, stored in zip(self.weights, self._shape.split(state["weights"]), strict=True):
            own.copy_(stored)
        self._adam.restore(state)
