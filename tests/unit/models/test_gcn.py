"""The GCN is the formula of Kipf and Welling, with dropout that keeps the mean."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from securefg.data.graph import undirected
from securefg.models.gcn import GcnShape, SumOf, normalized_adjacency, run_gcn
from securefg.models.network import keep_mask
from securefg.models.sparse import DenseMatrix, FeatureMatrix, SparseMatrix

SHAPE = GcnShape(num_features=6, hidden=4, num_classes=3)
NUM_NODES = 9


def a_graph() -> tuple[Tensor, Tensor]:
    """Edges with a node of degree zero, and features with an empty row."""
    edges = torch.tensor([[0, 1, 2, 3, 4, 0, 5], [1, 2, 3, 4, 0, 3, 6]])
    stream = torch.Generator().manual_seed(4)
    features = torch.randn(NUM_NODES, 6, generator=stream, dtype=torch.float64)
    features *= torch.rand(NUM_NODES, 6, generator=stream) < 0.5
    features[2] = 0
    return undirected(edges, NUM_NODES), features


def dense_adjacency(edge_index: Tensor) -> Tensor:
    """D^-1/2 (A + I) D^-1/2, written out."""
    loops = torch.eye(NUM_NODES, dtype=torch.float64)
    loops[edge_index[0], edge_index[1]] = 1
    root = torch.diag(loops.sum(1).rsqrt())
    return root @ loops @ root


def weights() -> list[Tensor]:
    vector = SHAPE.initial(torch.Generator().manual_seed(5)).double()
    return [w.clone().requires_grad_() for w in SHAPE.split(vector)]


def as_dense(matrix: SparseMatrix) -> Tensor:
    return matrix @ torch.eye(matrix.shape[1], dtype=matrix.values.dtype)


def in_double(dense: Tensor) -> SparseMatrix:
    return SparseMatrix.from_dense(dense)


def test_the_normalised_adjacency_is_the_formula() -> None:
    edge_index, _ = a_graph()
    found = as_dense(normalized_adjacency(edge_index, NUM_NODES))
    assert torch.allclose(found.double(), dense_adjacency(edge_index), atol=1e-7)
    assert float(found[8, 8]) == 1.0


@pytest.mark.parametrize("kind", [SparseMatrix.from_dense, DenseMatrix], ids=["sparse", "dense"])
def test_layers_and_gradients_are_those_of_the_dense_formula(kind: type) -> None:
    edge_index, x = a_graph()
    adjacency = dense_adjacency(edge_index)
    first, second = weights()
    features: FeatureMatrix = kind(x)
    hidden, logits = run_gcn((first, second), in_double(adjacency), features)
    wanted_hidden = torch.relu(adjacency @ x @ first)
    wanted = adjacency @ wanted_hidden @ second
    assert torch.allclose(hidden, wanted_hidden, atol=1e-12)
    assert torch.allclose(logits, wanted, atol=1e-12)
    found = torch.autograd.grad(logits.logsumexp(1).sum(), (first, second))
    expected = torch.autograd.grad(wanted.logsumexp(1).sum(), (first, second))
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


def test_dropout_acts_on_the_features_and_on_the_hidden_layer() -> None:
    """The masks drawn anew from the same stream, in the same order, in the dense formula."""
    edge_index, x = a_graph()
    adjacency, features = dense_adjacency(edge_index), SparseMatrix.from_dense(x)
    first, second = weights()
    stream = torch.Generator().manual_seed(6)
    hidden, logits = run_gcn((first, second), in_double(adjacency), features, 0.5, stream)
    again = torch.Generator().manual_seed(6)
    kept = torch.zeros_like(x)
    kept[x.nonzero(as_tuple=True)] = features.values * keep_mask(features.values.shape, 0.5, again)
    wanted = torch.relu(adjacency @ kept @ first)
    mask = keep_mask(wanted.shape, 0.5, again)
    assert not torch.equal(kept, x)
    assert torch.allclose(hidden, wanted, atol=1e-12)
    assert torch.allclose(logits, adjacency @ (wanted * mask) @ second, atol=1e-12)


def test_without_a_stream_dropout_does_nothing() -> None:
    edge_index, x = a_graph()
    adjacency = in_double(dense_adjacency(edge_index))
    plain = run_gcn(weights(), adjacency, DenseMatrix(x))
    assert all(
        torch.equal(a, b)
        for a, b in zip(plain, run_gcn(weights(), adjacency, DenseMatrix(x), 0.9), strict=True)
    )


def test_dropout_keeps_its_share_and_the_mean() -> None:
    """100 000 draws: six standard deviations of a share are 0.0095."""
    mask = keep_mask(torch.Size([100_000]), 0.3, torch.Generator().manual_seed(0))
    assert set(mask.tolist()) == {0.0, float(torch.tensor(1 / 0.7))}
    assert abs(float((mask == 0).float().mean()) - 0.3) < 0.0095
    assert abs(float(mask.mean()) - 1) < 0.0095 / 0.7
    assert bool((keep_mask(torch.Size([50]), 0.0, torch.Generator()) == 1).all())


def test_a_sum_of_operators_is_the_operator_of_the_sum() -> None:
    edge_index, x = a_graph()
    one, other = dense_adjacency(edge_index), torch.diag(torch.arange(9.0).double())
    total = SumOf((in_double(one), in_double(other), in_double(one)))
    assert torch.allclose(total @ x, (2 * one + other) @ x, atol=1e-12)


def test_the_parameter_vector_splits_into_views_of_both_matrices() -> None:
    vector = torch.arange(float(SHAPE.num_parameters))
    first, second = SHAPE.split(vector)
    assert (first.shape, second.shape) == ((6, 4), (4, 3))
    assert torch.equal(torch.cat([first.flatten(), second.flatten()]), vector)
    first[0, 0] = -1
    assert float(vector[0]) == -1


def test_initial_weights_are_uniform_within_glorots_bound() -> None:
    """A uniform variable on (-b, b) has variance b^2 / 3; its fourth moment bounds the error."""
    shape = GcnShape(200, 100, 50)
    for matrix in shape.split(shape.initial(torch.Generator().manual_seed(0))):
        bound = math.sqrt(6 / sum(matrix.shape))
        assert float(matrix.abs().max()) <= bound
        error = 6 * math.sqrt(4 / 45 / matrix.numel()) * 3
        assert abs(float(matrix.var()) * 3 / bound**2 - 1) < error
        assert abs(float(matrix.mean())) < 6 * bound / math.sqrt(3 * matrix.numel())


def test_initial_weights_come_from_their_stream_alone() -> None:
    draws = [SHAPE.initial(torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert len(draws[0]) == SHAPE.num_parameters == 36
