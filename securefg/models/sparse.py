"""Sparse matrices with a fast product and gradient, and rows drawn from them.

A matrix is held as CSR. The CSR of its transpose is made when a gradient first needs it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

with warnings.catch_warnings():
    # PyTorch announces once per process that CSR tensors are in beta; the products here are stable.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1))


@dataclass(frozen=True)
class SparseMatrix:
    """A constant sparse matrix M, for products M @ B whose gradient flows into B.

    Parts of the transpose are sorted once, on first use.
    """

    rows: Tensor
    columns: Tensor
    values: Tensor
    shape: tuple[int, int]

    @classmethod
    def from_sorted_entries(
        cls, row: Tensor, column: Tensor, values: Tensor, shape: tuple[int, int]
    ) -> SparseMatrix:
        """Return the matrix of entries sorted by row, then column, with no two at one place."""
        return cls(row_pointers(row, shape[0]), column.int(), values, shape)

    @classmethod
    def from_entries(
        cls, row: Tensor, column: Tensor, values: Tensor, shape: tuple[int, int]
    ) -> SparseMatrix:
        """Return the matrix of entries in any order, with no two at one place."""
        order = torch.argsort(row * shape[1] + column)
        return cls.from_sorted_entries(row[order], column[order], values[order], shape)

    @classmethod
    def from_dense(cls, dense: Tensor) -> SparseMatrix:
        """Return the matrix of the non-zero entries of a dense matrix."""
        row, column = dense.nonzero(as_tuple=True)
        shape = (dense.shape[0], dense.shape[1])
        return cls.from_sorted_entries(row, column, dense[row, column], shape)

    @cached_property
    def to_transposed(self) -> Tensor:
        """Return the places of values in CSR order in the order of the transpose's CSR.

        Other values on the same pattern (dropout) need no sorting.
        """
        return torch.argsort(self.columns, stable=True)

    @cached_property
    def rows_transposed(self) -> Tensor:
        """Return where the entries of every column begin in the transpose's CSR."""
        return row_pointers(self.columns, self.shape[1])

    @cached_property
    def columns_transposed(self) -> Tensor:
        """Return the row of every entry, in the order of the transpose's CSR."""
        rows = torch.arange(self.shape[0], dtype=torch.int32, device=self.rows.device)
        return rows.repeat_interleave(self.rows.diff()).index_select(0, self.to_transposed)

    @cached_property
    def values_transposed(self) -> Tensor:
        """Return the values in the order of the transpose's CSR."""
        return self.values.index_select(0, self.to_transposed)

    @cached_property
    def csr(self) -> Tensor:
        """Return M as PyTorch's own tensor."""
        return make_csr(self.rows, self.columns, self.values, self.shape)

    @cached_property
    def csr_transposed(self) -> Tensor:
        """Return the transpose of M as PyTorch's own tensor."""
        return self.transposed(self.values_transposed)

    def transposed(self, values: Tensor) -> Tensor:
        """Return the transpose of the pattern with these values, in the order of its own CSR."""
        return make_csr(self.rows_transposed, self.columns_transposed, values, self.shape[::-1])

    def __matmul__(self, dense: Tensor) -> Tensor:
        return self.matmul(dense, self.values)

    def matmul(self, dense: Tensor, values: Tensor) -> Tensor:
        """Return M' @ dense, where M' has the pattern of M and these values, in CSR order."""
        return _Product.apply(self, values, dense)  # type: ignore[no-any-return, no-untyped-call]

    def product(self, dense: Tensor, values: Tensor | None = None) -> Tensor:
        """Return the product of `matmul` without autograd, for those who write their gradients
        down."""
        if values is None or values is self.values:
            return self.csr @ dense
        return make_csr(self.rows, self.columns, values, self.shape) @ dense

    def product_transposed(self, dense: Tensor, values: Tensor | None = None) -> Tensor:
        """Return the product with the transpose of the matrix that `product` multiplies by."""
        if values is None or values is self.values:
            return self.csr_transposed @ dense
        if dense.device.type == "cpu":
            return self._scatter_product(dense, values)
        return self.transposed(values.index_select(0, self.to_transposed)) @ dense

    def _scatter_product(self, dense: Tensor, values: Tensor) -> Tensor:
        """Return the transposed product from the CSR of M itself: no value is moved first."""
        transposed = copy(self._csc_transposed)  # other threads may multiply by other values
        transposed.data = values.detach().numpy()
        product: NDArray[np.float32] = transposed @ dense.detach().numpy()
        return torch.from_numpy(product)

    @cached_property
    def _csc_transposed(self) -> Any:
        from scipy import sparse

        parts = (self.values.numpy(), self.columns.numpy(), self.rows.numpy())
        return sparse.csc_array(parts, shape=self.shape[::-1], copy=False)

    def at(self, rows: Tensor) -> SparseMatrix:
        """Return some rows, in the order asked for."""
        first = self.rows[rows].long()
        counts = self.rows[rows + 1].long() - first
        row = torch.arange(len(rows), device=rows.device).repeat_interleave(counts)
        places = torch.arange(len(row), device=rows.device)
        places += (first - (counts.cumsum(0) - counts))[row]
        shape = (len(rows), self.shape[1])
        return SparseMatrix.from_sorted_entries(
            row, self.columns[places], self.values[places], shape
        )

    def to(self, device: torch.device) -> SparseMatrix:
        """Return the matrix on another device."""
        if self.values.device == device:
            return self
        rows, columns, values = (t.to(device) for t in (self.rows, self.columns, self.values))
        return SparseMatrix(rows, columns, values, self.shape)


@dataclass(frozen=True)
class DenseMatrix:
    """A matrix that is mostly non-zero, with the interface of the sparse one."""

    values: Tensor

    def matmul(self, dense: Tensor, values: Tensor) -> Tensor:
        """Return values @ dense."""
        return values @ dense

    def product(self, dense: Tensor, values: Tensor | None = None) -> Tensor:
        """Return M @ dense, or values @ dense."""
        return (self.values if values is None else values) @ dense

    def product_transposed(self, dense: Tensor, values: Tensor | None = None) -> Tensor:
        """Return the transpose of what `product` multiplies by, @ dense."""
        return (self.values if values is None else values).T @ dense

    def at(self, rows: Tensor) -> DenseMatrix:
        """Return some rows, in the order asked for."""
        return DenseMatrix(self.values[rows])

    def to(self, device: torch.device) -> DenseMatrix:
        """Return the matrix on another device."""
        return DenseMatrix(self.values.to(device))


FeatureMatrix = SparseMatrix | DenseMatrix


def feature_matrix(features: Tensor) -> FeatureMatrix:
    """Return a sparse matrix if that is faster (below a quarter non-zero), else a dense matrix."""
    density = int(torch.count_nonzero(features)) / max(features.numel(), 1)
    return SparseMatrix.from_dense(features) if density < 0.25 else DenseMatrix(features)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: SparseMatrix, values: Tensor, dense: Tensor) -> Tensor:
        ctx.matrix, ctx.values = matrix, values
        return matrix.product(dense, values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, Tensor]:
        matrix: SparseMatrix = ctx.matrix
        return None, None, matrix.product_transposed(gradient, ctx.values)


def make_csr(rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return PyTorch's own tensor over these parts, unchecked."""
    return torch.sparse_csr_tensor(rows, columns, values, shape, check_invariants=False)


def row_pointers(rows: Tensor, num_rows: int) -> Tensor:
    """Return where every row's entries begin, when entries are sorted by row."""
    counts = torch.bincount(rows, minlength=num_rows)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)]).int()


@dataclass(frozen=True)
class Drawn:
    """A draw of entries of some rows: their places in the matrix, the rows' numbers among those
    asked for, and degree / number drawn."""

    places: Tensor
    rows: Tensor
    factors: Tensor


def draw_entries(starts: Tensor, rows: Tensor, fan_out: int, stream: torch.Generator) -> Drawn:
    """Return at most `fan_out` entries of every row, and all of them if there are no more.

    A row's entries are cut into `fan_out` equal stretches, and one is drawn from each, so every
    entry is expected fan_out / degree times, and no row costs more than `fan_out`.
    """
    first = starts[rows].long()
    degrees = starts[rows + 1].long() - first
    counts = degrees.clamp_max(fan_out)
    row_index = torch.arange(len(rows), device=rows.device).repeat_interleave(counts)
    rank = torch.arange(len(row_index), device=rows.device) - (counts.cumsum(0) - counts)[row_index]
    stretch = degrees[row_index].double() / counts[row_index]
    jitter = torch.rand(len(row_index), generator=stream, device=stream.device, dtype=torch.float64)
    within = ((rank + jitter) * stretch).long().minimum(degrees[row_index] - 1)
    places = first[row_index] + torch.where(stretch > 1, within, rank)
    return Drawn(places, row_index, stretch.float())


def sampled_rows(
    terms: Sequence[SparseMatrix], rows: Tensor, fan_out: int, stream: torch.Generator
) -> tuple[SparseMatrix, Tensor]:
    """Return rows of a sum of matrices, each sampled with its expectation kept, and the numbers of
    the columns that are left: E[sampled @ H[columns]] = (sum of terms @ H)[rows]."""
    drawn = [draw_entries(term.rows, rows, fan_out, stream) for term in terms]
    parts = list(zip(terms, drawn, strict=True))
    row = torch.cat([d.rows for d in drawn])
    column = torch.cat([term.columns[d.places].long() for term, d in parts])
    values = torch.cat([term.values[d.places] * d.factors for term, d in parts])
    columns, local = torch.unique(column, return_inverse=True)
    shape = (len(rows), len(columns))
    return SparseMatrix.from_entries(row, local, values, shape), columns


@dataclass(frozen=True)
class Incoming:
    """A graph's edges by their target: those into node i come from sources[starts[i] : starts[i +
    1]]."""

    starts: Tensor
    sources: Tensor

    @classmethod
    def of(cls, edge_index: Tensor, num_nodes: int) -> Incoming:
        """Return the edges by target, from (2, E) edges in any order."""
        order = torch.argsort(edge_index[1], stable=True)
        return cls(row_pointers(edge_index[1], num_nodes), edge_index[0][order])

    def edges_around(
        self, nodes: Tensor, fan_out: Sequence[int], stream: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return a subgraph: `nodes`, then those drawn hop by hop, and the drawn edges among
        them."""
        local = torch.full((len(self.starts) - 1,), -1, device=nodes.device)
        local[nodes] = torch.arange(len(nodes), device=nodes.device)
        known, frontier, edges = nodes, nodes, []
        for count in fan_out:
            drawn = draw_entries(self.starts, frontier, count, stream)
            source, target = self.sources[drawn.places], frontier[drawn.rows]
            frontier = torch.unique(source[local[source] < 0])
            local[frontier] = torch.arange(len(frontier), device=nodes.device) + len(known)
            known = torch.cat([known, frontier])
            edges.append(local[source] * len(local) + local[target])
        pairs = torch.unique(torch.cat(edges))
        return known, torch.stack([pairs // len(local), pairs % len(local)])


def draw_batches(count: int, size: int, stream: torch.Generator) -> Iterator[Tensor]:
    """Yield the numbers 0 to count - 1 in random order, `size` at a time."""
    order = torch.randperm(count, generator=stream, device=stream.device)
    return iter(torch.split(order, size))
