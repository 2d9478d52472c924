"""One linear layer per user, of which only the rows that can matter are held.

User i has a single feature vector x_i and a matrix W_i (d x q) of its own; it computes x_i W_i.
Row r of W_i matters only where x_ir != 0, and only such rows get a gradient, so they alone are
stored, all users' rows one after another. This is the same computation as with dense matrices, not
an approximation: on Cora 49 thousand rows stand for 3.9 million.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

BETAS = (0.9, 0.999)
EPS = 1e-8
ROWS_AT_ONCE = 8192
"""A stretch of rows that stays in cache while Adam passes over it."""


@dataclass(frozen=True)
class SparseFeatures:
    """The users' feature vectors, one after another: user i has entries offsets[i] to [i + 1]."""

    offsets: Tensor
    columns: Tensor
    values: Tensor
    num_columns: int

    @classmethod
    def of(cls, dense: Tensor) -> SparseFeatures:
        user, column = dense.nonzero(as_tuple=True)
        counts = torch.bincount(user, minlength=len(dense))
        offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return cls(offsets, column.int(), dense[user, column], dense.shape[1])

    @property
    def num_users(self) -> int:
        return len(self.offsets) - 1

    @property
    def owners(self) -> Tensor:
        """The user of every entry."""
        users = torch.arange(self.num_users, dtype=torch.int32, device=self.offsets.device)
        return torch.repeat_interleave(users, self.offsets.diff())

    def to(self, device: torch.device) -> SparseFeatures:
        return SparseFeatures(
            self.offsets.to(device),
            self.columns.to(device),
            self.values.to(device),
            self.num_columns,
        )


class UserRows:
    """The users of one host: their non-zero features, weights, and Adam's moments.

    Every user counts its own Adam steps, so that one that sat out a round is not ahead of itself.
    """

    def __init__(
        self, features: SparseFeatures, weights: Tensor, lr: float, weight_decay: float
    ) -> None:
        """`weights` (rows, q): a row for every entry of the features, in their order."""
        self._owner, self._x = features.owners, features.values[:, None]
        self._offsets, self._num_users = features.offsets.int(), features.num_users
        self._places = torch.arange(len(weights), dtype=torch.int32, device=weights.device)
        self._lr, self._decay = lr, weight_decay
        self.weights = weights
        self.first, self.second = torch.zeros_like(weights), torch.zeros_like(weights)
        self.steps = torch.zeros(self._num_users, dtype=torch.int64, device=weights.device)

    def latents(self) -> Tensor:
        """x_i W_i for every user, (n, q)."""
        return embedding_bag(
            self._places,
            self.weights,
            self._offsets,
            mode="sum",
            per_sample_weights=self._x[:, 0],
            include_last_offset=True,
        )

    def step(self, users: Tensor, gradients: Tensor) -> None:
        """Adam on these users' rows: dL/dW_i = x_i^T dL/d(x_i W_i), plus L2 regularisation."""
        self.steps[users] += 1
        spread = gradients.new_zeros(self._num_users, gradients.shape[1])
        spread[users] = gradients
        size, scale = self._corrections(gradients.dtype)
        if len(users) == self._num_users:
            for rows in self._stretches(len(self.weights)):
                self._adam(rows, spread, size, scale)
            return
        chosen = self._rows_of(users)
        for part in self._stretches(len(chosen)):
            self._adam_on(chosen[part], spread, size, scale)

    def _adam(self, rows: slice, spread: Tensor, size: Tensor, scale: Tensor) -> None:
        """A stretch of rows, in place."""
        owner = self._owner[rows]
        w, m, v = self.weights[rows], self.first[rows], self.second[rows]
        self._move(w, m, v, self._x[rows] * spread[owner], size[owner], scale[owner])

    def _adam_on(self, rows: Tensor, spread: Tensor, size: Tensor, scale: Tensor) -> None:
        """Scattered rows: taken out, moved, put back."""
        owner = self._owner[rows]
        w, m, v = self.weights[rows], self.first[rows], self.second[rows]
        self._move(w, m, v, self._x[rows] * spread[owner], size[owner], scale[owner])
        self.weights[rows], self.first[rows], self.second[rows] = w, m, v

    def _move(
        self, w: Tensor, m: Tensor, v: Tensor, g: Tensor, size: Tensor, scale: Tensor
    ) -> None:
        """w -= lr m_hat / (sqrt(v_hat) + eps), with size = lr / (1 - b1^t), scale the root of
        1 / (1 - b2^t)."""
        g.add_(w, alpha=self._decay)
        m.lerp_(g, 1 - BETAS[0])
        v.mul_(BETAS[1]).addcmul_(g, g, value=1 - BETAS[1])
        spread = torch.sqrt(v, out=g).mul_(scale).add_(EPS)
        w.sub_((m * size).div_(spread))

    def _rows_of(self, users: Tensor) -> Tensor:
        chosen = torch.zeros(self._num_users, dtype=torch.bool, device=users.device)
        chosen[users] = True
        return chosen[self._owner].nonzero().flatten()

    def _corrections(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Per user; one that never took a step has none, and none of its rows is moved."""
        steps = self.steps.clamp_min(1).to(torch.float64)
        size = self._lr / (1 - BETAS[0] ** steps)
        scale = (1 - BETAS[1] ** steps).rsqrt()
        return size.to(dtype)[:, None], scale.to(dtype)[:, None]

    @staticmethod
    def _stretches(length: int) -> Iterator[slice]:
        return (slice(i, i + ROWS_AT_ONCE) for i in range(0, length, ROWS_AT_ONCE))

    def state(self) -> dict[str, Tensor]:
        held = {"weights": self.weights, "first": self.first, "second": self.second}
        return {name: value.clone() for name, value in {**held, "steps": self.steps}.items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        for name in ("weights", "first", "second", "steps"):
            getattr(self, name).copy_(state[name])
