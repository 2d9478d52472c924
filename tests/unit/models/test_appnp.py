from __future__ import annotations

import torch

from securefg.data.graph import undirected
from securefg.models.appnp import dense_adjacency, propagate_hidden, propagation_matrix
from securefg.models.gcn import normalized_adjacency

EDGES = undirected(torch.tensor([[0, 0, 1, 3], [1, 2, 2, 4]]), 6)


def test_dense_and_sparse_adjacency_agree() -> None:
    sparse = normalized_adjacency(EDGES, 6) @ torch.eye(6)
    torch.testing.assert_close(dense_adjacency(EDGES, 6).float(), sparse)


def test_the_matrix_is_the_sum_of_the_papers_powers() -> None:
    adjacency, teleport, steps = dense_adjacency(EDGES, 6), 0.3, 4
    powers = [torch.linalg.matrix_power(adjacency, i) for i in range(steps + 1)]
    expected = sum(
        (teleport * (1 - teleport) ** i * powers[i] for i in range(steps)),
        (1 - teleport) ** steps * powers[steps],
    )
    assert torch.allclose(propagation_matrix(EDGES, 6, teleport, steps), expected, atol=1e-14)


def test_propagating_equals_multiplying_by_the_matrix() -> None:
    hidden = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    whole = propagation_matrix(EDGES, 6).float() @ hidden
    found = propagate_hidden(normalized_adjacency(EDGES, 6), hidden, 0.1, 10)
    torch.testing.assert_close(found, whole)


def test_a_node_without_edges_keeps_its_own() -> None:
    matrix = propagation_matrix(EDGES, 6)
    assert torch.allclose(matrix[5], torch.eye(6, dtype=torch.float64)[5])
