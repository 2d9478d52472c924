"""Training of any network on the labelled nodes of its graph, full batch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from securefg.models.adam import Adam
from securefg.models.network import Network, split
from securefg.models.sgd import Sgd
from securefg.settings.methods.alone import Optimizer


class Trainer:
    """A network's weights under an optimizer, both kept from call to call."""

    def __init__(
        self, network: Network, vector: Tensor, optimizer: Optimizer, lr: float, weight_decay: float
    ) -> None:
        self._network = network
        self.weights = tuple(w.clone().requires_grad_() for w in split(vector, network.shapes))
        decays = [weight_decay if decayed else 0.0 for decayed in network.decayed]
        self._optimizer = (Adam if optimizer == "adam" else Sgd)(self.weights, decays, lr)

    def train(
        self, updates: int, nodes: Tensor, classes: Tensor, dropout: float, stream: torch.Generator
    ) -> None:
        """Minimise the mean cross-entropy of `nodes`; without nodes nothing is learnt."""
        for _ in range(updates if len(nodes) else 0):
            logits = self._network.logits(self.weights, dropout, stream if dropout else None)
            loss = cross_entropy(logits[nodes], classes)
            self._optimizer.step(torch.autograd.grad(loss, self.weights))

    def vector(self) -> Tensor:
        return torch.cat([w.detach().flatten() for w in self.weights])

    def state(self) -> dict[str, Tensor]:
        return {"weights": self.vector(), **self._optimizer.state()}

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor]) -> None:
        for own, stored in zip(
            self.weights, split(state["weights"], self._network.shapes), strict=True
        ):
            own.copy_(stored)
        self._optimizer.restore(state)
