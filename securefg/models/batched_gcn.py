"""Many GCNs trained at once, as one tensor: same graph, same features, other training sets.

The first product of S networks is one sparse product, X [W0_1 ... W0_S], the convolutions likewise;
only the small product with W1 is a batch. In training, rows that no training node can see within
two steps are left out. What a network learns is what it would learn alone
(`training.GcnTrainer`), to rounding; with dropout the mask on X is shared by the networks of
an epoch, since one product has one X, while the mask on the hidden layer is each network's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from securefg.models.gcn import GcnShape
from securefg.models.network import keep_mask
from securefg.models.sparse import DenseMatrix, FeatureMatrix, SparseMatrix, csr

BETAS, EPS = (0.9, 0.999), 1e-8


@dataclass(frozen=True)
class Field:
    """What the logits of some nodes depend on: Z = second ReLU(first X W0) W1."""

    features: FeatureMatrix
    first: SparseMatrix
    second: SparseMatrix

    @classmethod
    def whole(cls, adjacency: SparseMatrix, features: FeatureMatrix) -> Field:
        """Of all nodes."""
        return cls(features, adjacency, adjacency)

    @classmethod
    def of(cls, nodes: Tensor, adjacency: SparseMatrix, features: FeatureMatrix) -> Field:
        """Of `nodes` alone, in their order; rows of no effect on them are left out."""
        second, near = _rows(adjacency, nodes)
        first, seen = _rows(adjacency, near)
        return cls(_feature_rows(features, seen), first, second)


class BatchedGcns:
    """W0 (d, S h) and W1 (S, h, C) of S networks under Adam, with L2 on the first alone."""

    def __init__(self, shape: GcnShape, vectors: Tensor, lr: float, weight_decay: float) -> None:
        """`vectors`: a row of flat parameters per network."""
        self._shape, self._count = shape, len(vectors)
        first, second = zip(*(shape.split(vector) for vector in vectors), strict=True)
        self._first, self._second = torch.cat(first, 1), torch.stack(second)
        self._adams = (BufferedAdam(self._first, lr, weight_decay), BufferedAdam(self._second, lr))

    @torch.no_grad()
    def train(
        self,
        epochs: int,
        adjacency: SparseMatrix,
        features: FeatureMatrix,
        classes: Tensor,
        member: Tensor,
        dropout: float,
        stream: torch.Generator,
    ) -> None:
        """Minimise for every network its own mean cross-entropy over its own members.

        classes  (N,) of all nodes;  member  (S, N), whose every row has a node
        """
        pool = member.any(0).nonzero().flatten()
        pass_ = Pass(Field.of(pool, adjacency, features), self._first, self._second)
        wanted = one_hot(classes[pool], self._shape.num_classes).float()
        factor = (member[:, pool] / member.sum(1, keepdim=True))[..., None]
        for _ in range(epochs):
            logits = pass_.forward(dropout, stream)
            # The loss is the sum over the networks: no weight is in two of its terms.
            gradients = pass_.backward((logits.softmax(-1) - wanted) * factor)
            for adam, gradient in zip(self._adams, gradients, strict=True):
                adam.step(gradient)

    @torch.no_grad()
    def logits(self, adjacency: SparseMatrix, features: FeatureMatrix) -> Tensor:
        """(S, N, C)"""
        field = Field.whole(adjacency, features)
        return Pass(field, self._first, self._second).forward(0.0, None)

    def vectors(self) -> Tensor:
        """(S, parameters): every network's flat vector."""
        first = self._first.view(-1, self._count, self._shape.hidden).transpose(0, 1)
        return torch.cat([first.flatten(1), self._second.flatten(1)], 1)


class Pass:
    """Forward and backward by hand, into buffers: T = X W0, U = A1 T, H = ReLU(U), V = A2 H,
    Z = V W1 per network. Fresh memory for every product would cost more than the products."""

    def __init__(self, field: Field, first: Tensor, second: Tensor) -> None:
        self._field, self._weights = field, (first, second)
        width = first.shape[1]
        rows = (field.first.shape[1], field.first.shape[0], field.second.shape[0])
        self._mixed, self._hidden, self._near = (first.new_empty(n, width) for n in rows)
        self._passes, self._kept = (torch.empty_like(self._hidden, dtype=torch.bool) for _ in "ab")
        self._draws = torch.empty(
            self._hidden.numel() // 4 + 1, dtype=torch.int64, device=first.device
        )
        self._gradient = torch.empty_like(first)
        self._values, self._scale = field.features.values, 1.0

    def forward(self, dropout: float, stream: torch.Generator | None) -> Tensor:
        """The logits of the batch; dropout acts when a stream is given."""
        first, second = self._weights
        self._values = self._field.features.values
        self._scale = 1.0 if stream is None else 1 / (1 - dropout)
        _product(self._field.features, first, self._mixed, self._dropped_values(dropout, stream))
        _product(self._field.first, self._mixed, self._hidden)
        torch.gt(self._hidden, 0, out=self._passes)
        if stream is not None and dropout:
            self._passes.logical_and_(self._draw(dropout, stream))
        self._hidden.mul_(self._passes)
        # A (H W1) = (A H) W1: the sum over neighbours first leaves fewer rows for the batch.
        _product(self._field.second, self._hidden, self._near)
        return torch.bmm(self._batch(self._near.mul_(self._scale)), second)

    def backward(self, by_logits: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients by W0 and W1."""
        by_second = torch.bmm(self._batch(self._near).transpose(1, 2), by_logits)
        by_near = torch.bmm(by_logits, self._weights[1].transpose(1, 2))
        self._batch(self._near).copy_(by_near.mul_(self._scale))
        _product_transposed(self._field.second, self._near, self._hidden)
        self._hidden.mul_(self._passes)
        _product_transposed(self._field.first, self._hidden, self._mixed)
        _product_transposed(self._field.features, self._mixed, self._gradient, self._values)
        return self._gradient, by_second

    def _dropped_values(self, dropout: float, stream: torch.Generator | None) -> Tensor:
        if stream is not None and dropout:
            self._values = self._values * keep_mask(self._values.shape, dropout, stream)
        return self._values

    def _draw(self, dropout: float, stream: torch.Generator) -> Tensor:
        """True with probability 1 - dropout, to 2^-16: four places share a draw of 64 bits."""
        self._draws.random_(torch.iinfo(torch.int64).min, None, generator=stream)
        lanes = self._draws.view(torch.int16)[: self._kept.numel()].view(self._kept.shape)
        return torch.ge(lanes, round(dropout * 65536) - 32768, out=self._kept)

    def _batch(self, rows: Tensor) -> Tensor:
        """(n, S h) seen as (S, n, h)."""
        count, hidden, _ = self._weights[1].shape
        return rows.view(-1, count, hidden).transpose(0, 1)


class BufferedAdam:
    """The step of `optimizers.Adam`, on one tensor, without fresh memory."""

    def __init__(self, weights: Tensor, lr: float, weight_decay: float = 0.0) -> None:
        self._weights, self._lr, self._decay = weights, lr, weight_decay
        self._first, self._second = torch.zeros_like(weights), torch.zeros_like(weights)
        self._spread, self._steps = torch.empty_like(weights), 0

    def step(self, gradient: Tensor) -> None:
        """Overwrites the gradient."""
        self._steps += 1
        b1, b2 = BETAS
        if self._decay:
            gradient.add_(self._weights, alpha=self._decay)
        self._first.lerp_(gradient, 1 - b1)
        self._second.mul_(b2).addcmul_(gradient, gradient, value=1 - b2)
        torch.sqrt(self._second, out=self._spread)
        self._spread.div_((1 - b2**self._steps) ** 0.5).add_(EPS)
        rate = self._lr / (1 - b1**self._steps)
        self._weights.addcdiv_(self._first, self._spread, value=-rate)


def _product(
    matrix: FeatureMatrix, dense: Tensor, out: Tensor, values: Tensor | None = None
) -> None:
    values = matrix.values if values is None else values
    if isinstance(matrix, DenseMatrix):
        torch.mm(values, dense, out=out)
        return
    torch.addmm(out, csr(matrix.rows, matrix.columns, values, matrix.shape), dense, beta=0, out=out)


def _product_transposed(
    matrix: FeatureMatrix, dense: Tensor, out: Tensor, values: Tensor | None = None
) -> None:
    if isinstance(matrix, DenseMatrix):
        torch.mm((matrix.values if values is None else values).T, dense, out=out)
        return
    own = values is None or values is matrix.values
    moved = matrix.values_transposed if own or values is None else values[matrix.to_transposed]
    shape = matrix.shape[::-1]
    transposed = csr(matrix.rows_transposed, matrix.columns_transposed, moved, shape)
    torch.addmm(out, transposed, dense, beta=0, out=out)


def _rows(matrix: SparseMatrix, rows: Tensor) -> tuple[SparseMatrix, Tensor]:
    """Some rows of a matrix without its empty columns, and which columns are left."""
    row, column, values = _entries(matrix, rows)
    kept, place = torch.unique(column, return_inverse=True)
    return SparseMatrix.from_entries(row, place, values, (len(rows), len(kept))), kept


def _entries(matrix: SparseMatrix, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    counts = matrix.rows.diff().long()
    row = torch.repeat_interleave(torch.arange(matrix.shape[0], device=rows.device), counts)
    place = row.new_full((matrix.shape[0],), -1)
    place[rows] = torch.arange(len(rows), device=rows.device)
    chosen = place[row] >= 0
    return place[row][chosen], matrix.columns[chosen].long(), matrix.values[chosen]


def _feature_rows(features: FeatureMatrix, rows: Tensor) -> FeatureMatrix:
    if isinstance(features, DenseMatrix):
        return DenseMatrix(features.values[rows])
    row, column, values = _entries(features, rows)
    return SparseMatrix.from_entries(row, column, values, (len(rows), features.shape[1]))
