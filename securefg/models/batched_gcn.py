"""Many GCNs trained at once, as one tensor: same graph, same features, other training sets.

The first product of S networks is one sparse product, X [W0_1 ... W0_S], the convolutions likewise.
Only the small product with W1 is a batch. In training, rows that no training node can see within
two steps are left out. A network learns what it would learn alone (`training.GcnTrainer`), to
rounding. With dropout the mask on X is shared by the networks of an epoch, since one product has
one X, while the mask on the hidden layer is each network's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from securefg.models.gcn import GcnShape
from securefg.models.network import keep_mask
from securefg.models.sparse import DenseMatrix, FeatureMatrix, SparseMatrix, make_csr

BETAS, EPS = (0.9, 0.999), 1e-8


@dataclass(frozen=True)
class Field:
    """A set of rows that the logits of some nodes depend on: Z = second ReLU(first X W0) W1."""

    features: FeatureMatrix
    first: SparseMatrix
    second: SparseMatrix

    @classmethod
    def whole(cls, adjacency: SparseMatrix, features: FeatureMatrix) -> Field:
        """Return the field of all nodes."""
        return cls(features, adjacency, adjacency)

    @classmethod
    def of(cls, nodes: Tensor, adjacency: SparseMatrix, features: FeatureMatrix) -> Field:
        """Return the field of `nodes` alone, in their order. Rows of no effect on them are left
        out."""
        second, near = _matrix_rows(adjacency, nodes)
        first, seen = _matrix_rows(adjacency, near)
        return cls(_feature_rows(features, seen), first, second)


class BatchedGcns:
    """A batch of S networks under Adam: W0 (d, S h) and W1 (S, h, C), with L2 on the first
    alone."""

    def __init__(self, shape: GcnShape, vectors: Tensor, lr: float, weight_decay: float) -> None:
        """Take `vectors`, a row of flat parameters per network."""
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
        """Return logits (S, N, C)."""
        field = Field.whole(adjacency, features)
        return Pass(field, self._first, self._second).forward(0.0, None)

    def vectors(self) -> Tensor:
        """Return (S, parameters): every network's flat vector."""
        first = self._first.view(-1, self._count, self._shape.hidden).transpose(0, 1)
        return torch.cat([first.flatten(1), self._second.flatten(1)], 1)


class Pass:
    """A forward and backward pass by hand, into buffers: T = X W0, U = A1 T, H = ReLU(U), V = A2 H,
    Z = V W1 per network. Fresh memory for every product would cost more than the products."""

    def __init__(self, field: Field, first: Tensor, second: Tensor) -> None:
        self._field, self._weights = field, (first, second)
        width = first.shape[1]
        rows = (field.first.shape[1], field.first.shape[0], field.second.shape[0])
        self._mixed, self._hidden, self._near = (first.new_empty(n, width) for n in rows)
        self._active, self._kept = (torch.empty_like(self._hidden) for _ in "ab")
        self._draws = torch.empty(
            self._hidden.numel() // 4 + 1, dtype=torch.int64, device=first.device
        )
        self._gradient = torch.empty_like(first)
        self._features: Thinned = _keep_whole(field.features)
        self._scale = 1.0

    def forward(self, dropout: float, stream: torch.Generator | None) -> Tensor:
        """Return the logits of the batch. Dropout acts when a stream is given."""
        first, second = self._weights
        self._scale = 1.0 if stream is None else 1 / (1 - dropout)
        if stream is not None and dropout:
            self._features = _thin_entries(self._field.features, dropout, stream)
        _multiply_into(self._features.matrix, first, self._mixed)
        _multiply_into(self._field.first.csr, self._mixed, self._hidden)
        torch.clamp_min(self._hidden, 0, out=self._active)
        if stream is not None and dropout:
            self._active.mul_(self._draw_kept(dropout, stream))
        # A (H W1) = (A H) W1: the sum over neighbours first leaves fewer rows for the batch.
        _multiply_into(self._field.second.csr, self._active, self._near)
        return torch.bmm(self._view_batch(self._near.mul_(self._scale)), second)

    def backward(self, by_logits: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients by W0 and W1."""
        by_second = torch.bmm(self._view_batch(self._near).transpose(1, 2), by_logits)
        by_near = torch.bmm(by_logits, self._weights[1].transpose(1, 2))
        self._view_batch(self._near).copy_(by_near.mul_(self._scale))
        _multiply_into(self._field.second.csr_transposed, self._near, self._hidden)
        passed = torch.ops.aten.threshold_backward(self._hidden, self._active, 0)
        _multiply_into(self._field.first.csr_transposed, passed, self._mixed)
        _multiply_into(self._features.transposed, self._mixed, self._gradient)
        return self._gradient, by_second

    def _draw_kept(self, dropout: float, stream: torch.Generator) -> Tensor:
        """Return 1 with probability 1 - dropout, to 2^-16, else 0: four places share a draw of 64
        bits."""
        self._draws.random_(torch.iinfo(torch.int64).min, None, generator=stream)
        lanes = self._draws.view(torch.int16)[: self._kept.numel()].view(self._kept.shape)
        return self._kept.copy_(lanes >= round(dropout * 65536) - 32768)

    def _view_batch(self, rows: Tensor) -> Tensor:
        """Return (n, S h) seen as (S, n, h)."""
        count, hidden, _ = self._weights[1].shape
        return rows.view(-1, count, hidden).transpose(0, 1)


@dataclass(frozen=True)
class Thinned:
    """A pair of one epoch's features and their transpose, as PyTorch's own tensors."""

    matrix: Tensor
    transposed: Tensor


def _keep_whole(features: FeatureMatrix) -> Thinned:
    if isinstance(features, DenseMatrix):
        return Thinned(features.values, features.values.T)
    return Thinned(features.csr, features.csr_transposed)


def _thin_entries(features: FeatureMatrix, dropout: float, stream: torch.Generator) -> Thinned:
    """Drop entries and return the rest. The dropped entries of a sparse matrix are left out of the
    products."""
    mask = keep_mask(features.values.shape, dropout, stream)
    values = features.values * mask
    if isinstance(features, DenseMatrix):
        return Thinned(values, values.T)
    moved, shape = features.to_transposed, features.shape
    rows, columns = features.rows_transposed, features.columns_transposed
    mask_moved, values_moved = mask.index_select(0, moved), values.index_select(0, moved)
    return Thinned(
        _entries_left(features.rows, features.columns, values, mask, shape),
        _entries_left(rows, columns, values_moved, mask_moved, shape[::-1]),
    )


def _entries_left(
    rows: Tensor, columns: Tensor, values: Tensor, mask: Tensor, shape: tuple[int, ...]
) -> Tensor:
    """Return the CSR tensor of the entries that the mask keeps."""
    kept = mask > 0
    before = torch.nn.functional.pad(kept.cumsum(0, dtype=torch.int32), (1, 0))
    places = _true_places(kept)
    starts = before.index_select(0, rows)
    return make_csr(starts, columns.index_select(0, places), values.index_select(0, places), shape)


def _true_places(mask: Tensor) -> Tensor:
    """Return where a mask is true. On the CPU NumPy finds the places six times as fast."""
    if mask.device.type == "cpu":
        return torch.from_numpy(np.flatnonzero(mask.numpy()))
    return mask.nonzero().flatten()


class BufferedAdam:
    """A step of `optimizers.Adam`, on one tensor, without fresh memory."""

    def __init__(self, weights: Tensor, lr: float, weight_decay: float = 0.0) -> None:
        self._weights, self._lr, self._decay = weights, lr, weight_decay
        self._first, self._second = torch.zeros_like(weights), torch.zeros_like(weights)
        self._spread, self._steps = torch.empty_like(weights), 0

    def step(self, gradient: Tensor) -> None:
        """Take a step, and overwrite the gradient."""
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


def _multiply_into(matrix: Tensor, dense: Tensor, out: Tensor) -> None:
    if matrix.layout is torch.strided:
        torch.mm(matrix, dense, out=out)
    else:
        torch.addmm(out, matrix, dense, beta=0, out=out)


def _matrix_rows(matrix: SparseMatrix, rows: Tensor) -> tuple[SparseMatrix, Tensor]:
    """Return some rows of a matrix without its empty columns, and which columns are left."""
    row, column, values = _row_entries(matrix, rows)
    kept, place = torch.unique(column, return_inverse=True)
    return SparseMatrix.from_entries(row, place, values, (len(rows), len(kept))), kept


def _row_entries(matrix: SparseMatrix, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    counts = matrix.rows.diff().long()
    row = torch.repeat_interleave(torch.arange(matrix.shape[0], device=rows.device), counts)
    place = row.new_full((matrix.shape[0],), -1)
    place[rows] = torch.arange(len(rows), device=rows.device)
    chosen = place[row] >= 0
    return place[row][chosen], matrix.columns[chosen].long(), matrix.values[chosen]


def _feature_rows(features: FeatureMatrix, rows: Tensor) -> FeatureMatrix:
    if isinstance(features, DenseMatrix):
        return DenseMatrix(features.values[rows])
    row, column, values = _row_entries(features, rows)
    return SparseMatrix.from_entries(row, column, values, (len(rows), features.shape[1]))
