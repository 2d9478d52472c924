"""One linear layer per user, of which only the rows that can matter are held.

User i has a single feature vector x_i and a matrix W_i (d x q) of its own; it computes x_i W_i.
Row r of W_i matters only where x_ir != 0, and only such rows get a gradient, so they alone are
stored, all users' rows one after another. This is the same computation as with dense matrices, not
an approximation: on Cora 49 thousand rows stand for 3.9 million.
"""

from __future__ import annotations

import torch
from torch import Tensor

BETAS = (0.9, 0.999)
EPS = 1e-8


class UserRows:
    """The users of one host: their non-zero features, weights, and Adam's moments.

    Every user counts its own Adam steps, so that one that sat out a round is not ahead of itself.
    """

    def __init__(self, features: Tensor, weights: Tensor, lr: float, weight_decay: float) -> None:
        """`features` (n, d); `weights` (rows, q), a row for every non-zero entry in CSR order."""
        self._user, self._feature = features.nonzero(as_tuple=True)
        self._x = features[self._user, self._feature][:, None]
        self._num_users = len(features)
        self._lr, self._decay = lr, weight_decay
        self.weights = weights
        self.first, self.second = torch.zeros_like(weights), torch.zeros_like(weights)
        self.steps = torch.zeros(self._num_users, dtype=torch.int64, device=features.device)

    def latents(self) -> Tensor:
        """x_i W_i for every user, (n, q)."""
        out = self.weights.new_zeros(self._num_users, self.weights.shape[1])
        return out.index_add_(0, self._user, self._x * self.weights)

    def step(self, users: Tensor, gradients: Tensor) -> None:
        """Adam on these users' rows: dL/dW_i = x_i^T dL/d(x_i W_i), plus L2 regularisation."""
        self.steps[users] += 1
        whole = len(users) == self._num_users
        rows = slice(None) if whole else self._rows_of(users)
        spread = gradients.new_zeros(self._num_users, gradients.shape[1])
        spread[users] = gradients
        owner, w = self._user[rows], self.weights[rows]
        g = (self._x[rows] * spread[owner]).add_(w, alpha=self._decay)
        m = self.first[rows].lerp_(g, 1 - BETAS[0])
        v = self.second[rows].mul_(BETAS[1]).addcmul_(g, g, value=1 - BETAS[1])
        correction1, correction2 = self._corrections(owner, w.dtype)
        update = m / correction1 / ((v / correction2).sqrt_().add_(EPS))
        self.weights[rows] = w.sub(update, alpha=self._lr)
        self.first[rows], self.second[rows] = m, v

    def _rows_of(self, users: Tensor) -> Tensor:
        chosen = torch.zeros(self._num_users, dtype=torch.bool, device=users.device)
        chosen[users] = True
        return chosen[self._user].nonzero().flatten()

    def _corrections(self, owner: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        steps = self.steps.to(torch.float64)
        corrections = [(1 - beta**steps).to(dtype)[owner][:, None] for beta in BETAS]
        return corrections[0], corrections[1]

    def state(self) -> dict[str, Tensor]:
        held = {"weights": self.weights, "first": self.first, "second": self.second}
        return {name: value.clone() for name, value in {**held, "steps": self.steps}.items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        for name in ("weights", "first", "second", "steps"):
            getattr(self, name).copy_(state[name])
