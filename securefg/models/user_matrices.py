"""One linear layer per user, held whole: what users must have who send their weights.

The rows of W_i that x_i never touches get no gradient but their weight decay; with Adam that moves
them too. `user_rows` leaves them out, since nobody would ever see them; CNFGNN averages them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from securefg.models.user_rows import BETAS, EPS

NUMBERS_AT_ONCE = 1 << 20
"""Weights that Adam moves at once: a whole host's would need several copies of themselves."""


class UserMatrices:
    """The users of one host: dense features (n, d), weights (n, d, q), and Adam's moments.

    Every user counts its own Adam steps, so that one that sat out a round is not ahead of itself.
    """

    def __init__(self, features: Tensor, weights: Tensor, lr: float, weight_decay: float) -> None:
        self._x, self._lr, self._decay = features, lr, weight_decay
        self.weights = weights
        self.first, self.second = torch.zeros_like(weights), torch.zeros_like(weights)
        self.steps = torch.zeros(len(features), dtype=torch.int64, device=features.device)

    def take(self, users: Tensor, weights: Tensor) -> None:
        """These users go on from one matrix (d, q)."""
        self.weights[users] = weights

    def latents(self) -> Tensor:
        """x_i W_i for every user, (n, q)."""
        return torch.bmm(self._x[:, None], self.weights)[:, 0]

    def step(self, users: Tensor, gradients: Tensor) -> None:
        """Adam on these users' matrices: dL/dW_i = x_i^T dL/d(x_i W_i), plus L2 regularisation."""
        self.steps[users] += 1
        at_once = max(1, NUMBERS_AT_ONCE // self.weights[0].numel())
        for first in range(0, len(users), at_once):
            some = slice(first, first + at_once)
            self._adam(users[some], gradients[some])

    def _adam(self, users: Tensor, gradients: Tensor) -> None:
        w, m, v = self.weights[users], self.first[users], self.second[users]
        g = (self._x[users][:, :, None] * gradients[:, None]).add_(w, alpha=self._decay)
        m.lerp_(g, 1 - BETAS[0])
        v.mul_(BETAS[1]).addcmul_(g, g, value=1 - BETAS[1])
        steps = self.steps[users].double()[:, None, None]
        first, second = ((1 - beta**steps).to(w.dtype) for beta in BETAS)
        spread = torch.sqrt(v, out=g).mul_(second.rsqrt()).add_(EPS)
        self.weights[users] = w.sub_((m * (self._lr / first)).div_(spread))
        self.first[users], self.second[users] = m, v

    def state(self) -> dict[str, Tensor]:
        held = {"weights": self.weights, "first": self.first, "second": self.second}
        return {name: value.clone() for name, value in {**held, "steps": self.steps}.items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        for name in ("weights", "first", "second", "steps"):
            getattr(self, name).copy_(state[name])
