"""Sparse products and their gradients are those of the dense matrix."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from securefg.models.sparse import DenseMatrix, SparseMatrix, feature_matrix


def sparse_and_dense(
    rows: int, columns: int, density: float, seed: int
) -> tuple[SparseMatrix, Tensor]:
    stream = torch.Generator().manual_seed(seed)
    values = torch.randn(rows, columns, generator=stream, dtype=torch.float64)
    dense = values * (torch.rand(rows, columns, generator=stream) < density)
    return SparseMatrix.from_dense(dense), dense


def operand(rows: int, columns: int, seed: int = 9) -> Tensor:
    stream = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=stream, dtype=torch.float64).requires_grad_()


def gradient(product: Tensor, by: Tensor) -> Tensor:
    """Of a loss whose derivative differs in every entry."""
    (found,) = torch.autograd.grad((product.sin() * product).sum(), by)
    return found


sizes = st.integers(1, 9)


@settings(max_examples=60)
@given(sizes, sizes, sizes, st.sampled_from([0.0, 0.2, 0.7, 1.0]), st.integers(0, 2**32 - 1))
def test_product_and_gradient_are_those_of_the_dense_matrix(
    rows: int, inner: int, columns: int, density: float, seed: int
) -> None:
    """With empty rows, empty columns and nothing at all among the patterns."""
    matrix, dense = sparse_and_dense(rows, inner, density, seed)
    other = operand(inner, columns)
    assert torch.allclose(matrix @ other, dense @ other, rtol=1e-12, atol=1e-12)
    assert torch.allclose(
        gradient(matrix @ other, other), gradient(dense @ other, other), rtol=1e-12, atol=1e-12
    )


@settings(max_examples=60)
@given(sizes, sizes, st.sampled_from([0.0, 0.3, 1.0]), st.integers(0, 2**32 - 1))
def test_other_values_on_the_same_pattern_have_their_own_product_and_gradient(
    rows: int, inner: int, density: float, seed: int
) -> None:
    matrix, dense = sparse_and_dense(rows, inner, density, seed)
    stream = torch.Generator().manual_seed(seed)
    dropped = matrix.values * (torch.rand(matrix.values.shape, generator=stream) < 0.5) * 2
    wanted = torch.zeros_like(dense)
    wanted[dense.nonzero(as_tuple=True)] = dropped
    other = operand(inner, 3)
    found = matrix.matmul(other, dropped)
    assert torch.allclose(found, wanted @ other, rtol=1e-12, atol=1e-12)
    assert torch.allclose(
        gradient(found, other), gradient(wanted @ other, other), rtol=1e-12, atol=1e-12
    )


def test_entries_may_come_in_any_order() -> None:
    _, dense = sparse_and_dense(6, 4, 0.5, 0)
    row, column = dense.nonzero(as_tuple=True)
    order = torch.randperm(len(row), generator=torch.Generator().manual_seed(1))
    row, column = row[order], column[order]
    matrix = SparseMatrix.from_entries(row, column, dense[row, column], (6, 4))
    other = operand(4, 2)
    assert torch.allclose(matrix @ other, dense @ other)
    assert torch.allclose(gradient(matrix @ other, other), gradient(dense @ other, other))


def test_the_gradient_passes_a_numerical_check() -> None:
    matrix, _ = sparse_and_dense(5, 4, 0.4, 3)
    assert torch.autograd.gradcheck(lambda other: matrix @ other, operand(4, 3))


def test_the_transpose_holds_the_same_entries() -> None:
    matrix, dense = sparse_and_dense(5, 4, 0.4, 3)
    pointers, columns = matrix.rows_transposed.long(), matrix.columns_transposed.long()
    row = torch.arange(4).repeat_interleave(pointers.diff())
    found = torch.zeros(4, 5, dtype=torch.float64)
    found[row, columns] = matrix.values_transposed
    assert torch.equal(found, dense.T)


def test_a_matrix_moves_with_all_its_arrays() -> None:
    matrix, dense = sparse_and_dense(5, 4, 0.4, 3)
    moved = matrix.to(torch.device("meta"))
    arrays = [value for value in vars(moved).values() if isinstance(value, Tensor)]
    assert len(arrays) == 3  # the transpose is sorted again where the matrix moved to
    assert all(array.device.type == "meta" for array in arrays)
    assert moved.shape == (5, 4)
    assert DenseMatrix(dense).to(torch.device("meta")).values.device.type == "meta"


@pytest.mark.parametrize(("filled", "kind"), [(24, SparseMatrix), (25, DenseMatrix)])
def test_features_are_sparse_below_a_quarter(filled: int, kind: type) -> None:
    features = torch.zeros(100)
    features[:filled] = 1
    assert isinstance(feature_matrix(features.reshape(10, 10)), kind)


def test_sparse_and_dense_features_have_one_face() -> None:
    matrix, dense = sparse_and_dense(5, 4, 0.4, 3)
    other = operand(4, 3)
    full = DenseMatrix(dense)
    assert torch.allclose(
        matrix.matmul(other, 2 * matrix.values), full.matmul(other, 2 * full.values)
    )
