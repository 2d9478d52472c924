from __future__ import annotations

import pytest
import torch

from securefg.data.graph import undirected
from securefg.models.appnp import graph_heterogeneity


def complete(n: int) -> torch.Tensor:
    return undirected(torch.combinations(torch.arange(n)).T, n)


def path(n: int) -> torch.Tensor:
    return undirected(torch.stack([torch.arange(n - 1), torch.arange(1, n)]), n)


def test_it_is_the_largest_eigenvalue_of_the_papers_product() -> None:
    edges, n = path(7), 7
    adjacency = torch.zeros(n, n, dtype=torch.float64)
    adjacency[edges[0], edges[1]] = 1
    laplacian = torch.diag(adjacency.sum(1)) - adjacency
    ones = torch.ones(n, n, dtype=torch.float64)
    product = (torch.eye(n) / n - ones / n**2) @ torch.linalg.pinv(laplacian)
    expected = torch.linalg.eigvals(product).real.max()
    assert graph_heterogeneity(edges, n) == pytest.approx(float(expected))


def test_it_falls_with_connection() -> None:
    assert graph_heterogeneity(complete(9), 9) == pytest.approx(1 / 81)
    assert graph_heterogeneity(path(9), 9) > graph_heterogeneity(complete(9), 9)


def test_components_are_judged_by_themselves_and_no_edges_give_zero() -> None:
    assert graph_heterogeneity(path(3), 6) == pytest.approx(1 / 6)
    assert graph_heterogeneity(torch.empty(2, 0, dtype=torch.int64), 4) == 0
