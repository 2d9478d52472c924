"""One linear layer per user: held as the rows that can matter, or whole.

User i has a single feature vector x_i and a matrix W_i (d x q) of its own. It computes x_i W_i. Row
r of W_i matters only where x_ir != 0, and only such rows get a gradient, so `UserRows` stores them
alone, all users' rows one after another. This is the same computation as with dense matrices, not
an approximation: on Cora 49 thousand rows stand for 3.9 million. The other rows get weight decay
alone, which Adam turns into movement. CNFGNN averages them, so `UserMatrices` holds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

BETAS = (0.9, 0.999)
EPS = 1e-8
ROWS_AT_ONCE = 4096
"""A stretch of rows that stays in cache while Adam passes over it."""


@dataclass(frozen=True)
class SparseFeatures:
    """A list of the users' feature vectors, one after another: user i has entries offsets[i] to [i
    + 1]."""

    offsets: Tensor
    columns: Tensor
    values: Tensor
    num_columns: int

    @classmethod
    def of(cls, dense: Tensor) -> SparseFeatures:
        """Return the sparse form of dense features, (users, d)."""
        user, column = dense.nonzero(as_tuple=True)
        counts = torch.bincount(user, minlength=len(dense))
        offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return cls(offsets, column.int(), dense[user, column], dense.shape[1])

    @property
    def num_users(self) -> int:
        """Return the number of users."""
        return len(self.offsets) - 1

    @property
    def owners(self) -> Tensor:
        """Return the user of every entry."""
        users = torch.arange(self.num_users, dtype=torch.int32, device=self.offsets.device)
        return torch.repeat_interleave(users, self.offsets.diff())

    def to(self, device: torch.device) -> SparseFeatures:
        """Return the features on another device."""
        return SparseFeatures(
            self.offsets.to(device),
            self.columns.to(device),
            self.values.to(device),
            self.num_columns,
        )


class _UserAdam:
    """A set of weights of many users, Adam's moments, and every user's own count of steps. A user
    that sat out a round is not ahead of itself."""

    def __init__(self, weights: Tensor, num_users: int) -> None:
        self.weights = weights
        self.first, self.second = torch.zeros_like(weights), torch.zeros_like(weights)
        self.steps = torch.zeros(num_users, dtype=torch.int64, device=weights.device)

    def state(self) -> dict[str, Tensor]:
        """Return the arrays themselves: a copy of a million users' would take gigabytes.

        Store them before the next step.
        """
        held = {"weights": self.weights, "first": self.first, "second": self.second}
        return {**held, "steps": self.steps}

    def restore(self, state: dict[str, Tensor]) -> None:
        for name in ("weights", "first", "second", "steps"):
            getattr(self, name).copy_(state[name])


class UserRows(_UserAdam):
    """A set of the users of one host: their non-zero features, weights, and Adam's moments."""

    def __init__(
        self, features: SparseFeatures, weights: Tensor, lr: float, weight_decay: float
    ) -> None:
        """Take `weights` (rows, q): a row for every entry of the features, in their order."""
        self._owner, self._x = features.owners, features.values[:, None]
        self._offsets, self._num_users = features.offsets.int(), features.num_users
        self._places = torch.arange(len(weights), dtype=torch.int32, device=weights.device)
        self._lr, self._decay = lr, weight_decay
        super().__init__(weights, features.num_users)

    def latents(self) -> Tensor:
        """Return x_i W_i for every user, (n, q)."""
        return embedding_bag(
            self._places,
            self.weights,
            self._offsets,
            mode="sum",
            per_sample_weights=self._x[:, 0],
            include_last_offset=True,
        )

    def step(self, users: Tensor, gradients: Tensor) -> None:
        """Take a step of Adam on these users' rows: dL/dW_i = x_i^T dL/d(x_i W_i), plus L2
        regularisation."""
        self.steps[users] += 1
        spread = gradients.new_zeros(self._num_users, gradients.shape[1])
        spread[users] = gradients
        size, floor = self._adam_corrections(gradients.dtype)
        if len(users) == self._num_users:
            for rows in self._row_stretches(len(self.weights)):
                held = (self.weights[rows], self.first[rows], self.second[rows])
                self._adam_stretch(*held, self._x[rows], self._owner[rows], spread, size, floor)
            return
        chosen = self._rows_of(users)
        for part in self._row_stretches(len(chosen)):
            scattered = chosen[part]
            taken = (self.weights[scattered], self.first[scattered], self.second[scattered])
            self._adam_stretch(
                *taken, self._x[scattered], self._owner[scattered], spread, size, floor
            )
            self.weights[scattered], self.first[scattered], self.second[scattered] = taken

    def _adam_stretch(
        self,
        w: Tensor,
        m: Tensor,
        v: Tensor,
        x: Tensor,
        owner: Tensor,
        spread: Tensor,
        size: Tensor,
        floor: Tensor,
    ) -> None:
        """Update a stretch of rows in place: w -= lr m_hat / (sqrt(v_hat) + eps)."""
        g = spread.index_select(0, owner).mul_(x).add_(w, alpha=self._decay)
        m.lerp_(g, 1 - BETAS[0])
        v.mul_(BETAS[1]).addcmul_(g, g, value=1 - BETAS[1])
        torch.sqrt(v, out=g).add_(_owner_rows(owner, floor))
        w.sub_(torch.div(m, g, out=g).mul_(_owner_rows(owner, size)))

    def _rows_of(self, users: Tensor) -> Tensor:
        chosen = torch.zeros(self._num_users, dtype=torch.bool, device=users.device)
        chosen[users] = True
        return chosen[self._owner].nonzero().flatten()

    def _adam_corrections(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return lr m_hat / (sqrt(v_hat) + eps) = size m / (sqrt(v) + floor), where, at a user's
        step t, root = sqrt(1 - b2^t), size = lr root / (1 - b1^t) and floor = eps root.

        A row per user, or a single one where all are at the same step.
        """
        alike = bool((self.steps == self.steps[0]).all())
        steps = (self.steps[:1] if alike else self.steps).clamp_min(1).to(torch.float64)
        root = (1 - BETAS[1] ** steps).sqrt()
        size = self._lr * root / (1 - BETAS[0] ** steps)
        return size.to(dtype)[:, None], (EPS * root).to(dtype)[:, None]

    @staticmethod
    def _row_stretches(length: int) -> Iterator[slice]:
        return (slice(i, i + ROWS_AT_ONCE) for i in range(0, length, ROWS_AT_ONCE))


def _owner_rows(owner: Tensor, table: Tensor) -> Tensor:
    """Return the owners' rows of a table, or its only row for all: the same numbers either way."""
    return table if len(table) == 1 else table.index_select(0, owner)


NUMBERS_AT_ONCE = 1 << 20
"""Weights that Adam moves at once: a whole host's would need several copies of themselves."""


class UserMatrices(_UserAdam):
    """A set of the users of one host: dense features (n, d), weights (n, d, q), and Adam's
    moments."""

    def __init__(self, features: Tensor, weights: Tensor, lr: float, weight_decay: float) -> None:
        self._x, self._lr, self._decay = features, lr, weight_decay
        super().__init__(weights, len(features))

    def take(self, users: Tensor, weights: Tensor) -> None:
        """Set these users' weights to one matrix (d, q), from which they go on."""
        self.weights[users] = weights

    def latents(self) -> Tensor:
        """Return x_i W_i for every user, (n, q)."""
        return torch.bmm(self._x[:, None], self.weights)[:, 0]

    def step(self, users: Tensor, gradients: Tensor) -> None:
        """Take a step of Adam on these users' matrices: dL/dW_i = x_i^T dL/d(x_i W_i), plus L2
        regularisation."""
        self.steps[users] += 1
        at_once = max(1, NUMBERS_AT_ONCE // self.weights[0].numel())
        for first in range(0, len(users), at_once):
            some = slice(first, first + at_once)
            self._adam_step(users[some], gradients[some])

    def _adam_step(self, users: Tensor, gradients: Tensor) -> None:
        w, m, v = self.weights[users], self.first[users], self.second[users]
        g = (self._x[users][:, :, None] * gradients[:, None]).add_(w, alpha=self._decay)
        m.lerp_(g, 1 - BETAS[0])
        v.mul_(BETAS[1]).addcmul_(g, g, value=1 - BETAS[1])
        steps = self.steps[users].double()[:, None, None]
        first, second = ((1 - beta**steps).to(w.dtype) for beta in BETAS)
        spread = torch.sqrt(v, out=g).mul_(second.rsqrt()).add_(EPS)
        self.weights[users] = w.sub_((m * (self._lr / first)).div_(spread))
        self.first[users], self.second[users] = m, v
