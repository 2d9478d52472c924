"""Local training of a GCN: some epochs of Adam on one client's own graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from securefg.models.gcn import GcnShape, Operator, gcn
from securefg.models.sparse import SparseMatrix


@dataclass(frozen=True)
class Targets:
    """Nodes, their classes, and the factor of their cross-entropy in the loss."""

    nodes: Tensor
    classes: Tensor
    factor: float = 1.0


class GcnTrainer:
    """Two weight matrices under Adam; L2 regularisation on the first alone, as in the GCN paper."""

    def __init__(self, shape: GcnShape, vector: Tensor, lr: float, weight_decay: float) -> None:
        self.weights = tuple(w.clone().requires_grad_() for w in shape.split(vector))
        groups = [
            {"params": [self.weights[0]], "weight_decay": weight_decay},
            {"params": [self.weights[1]], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.Adam(groups, lr=lr, fused=True)

    def load(self, shape: GcnShape, vector: Tensor) -> None:
        """Take over other weights and keep the optimizer's moments."""
        with torch.no_grad():
            for own, new in zip(self.weights, shape.split(vector), strict=True):
                own.copy_(new)

    def train(
        self,
        epochs: int,
        adjacency: Operator,
        features: SparseMatrix,
        targets: list[Targets],
        dropout: float,
        stream: torch.Generator,
    ) -> None:
        """Minimise sum_t factor_t * mean CE_t, full batch."""
        for _ in range(epochs):
            _, logits = gcn(self.weights, adjacency, features, dropout, stream)
            losses = [t.factor * cross_entropy(logits[t.nodes], t.classes) for t in targets]
            self.optimizer.zero_grad(set_to_none=True)
            torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()

    def vector(self) -> Tensor:
        return torch.cat([w.detach().flatten() for w in self.weights])

    def moments(self) -> dict[str, Tensor]:
        """Adam's state, for a checkpoint."""
        return {
            f"{name}.{i}": value
            for i, weight in enumerate(self.weights)
            for name, value in self.optimizer.state[weight].items()
        }

    def load_moments(self, moments: dict[str, Tensor]) -> None:
        for key, value in moments.items():
            name, i = key.split(".")
            self.optimizer.state[self.weights[int(i)]][name] = value.clone()
