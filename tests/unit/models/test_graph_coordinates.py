"""Spectral coordinates and a regression on them name the classes of a graph's parts."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from torch import Tensor

from securefg.models import graph_coordinates
from securefg.models.graph_coordinates import (
    multiply_shares,
    regress_classes,
    spectral_coordinates,
)

SIZE, PARTS = 12, 3


def ring_of_cliques() -> Tensor:
    """Three cliques with one link between each two of them."""
    inside = [
        (a + SIZE * k, b + SIZE * k) for k in range(PARTS) for a, b in combinations(range(SIZE), 2)
    ]
    across = [(SIZE * k, SIZE * ((k + 1) % PARTS) + 1) for k in range(PARTS)]
    ends = torch.tensor([*inside, *across]).T
    return torch.cat([ends, ends.flip(0)], 1)


@pytest.mark.parametrize("dense", [10, 1000])
def test_one_known_label_per_part_names_all_nodes(
    dense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_coordinates, "DENSE", dense)
    count = SIZE * PARTS
    truth = torch.arange(count) // SIZE
    labels = torch.where(torch.arange(count) % SIZE == 5, truth, -1)
    rows = spectral_coordinates(ring_of_cliques(), count, 4, 0.1)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    shares = regress_classes(rows, labels, PARTS)
    assert torch.allclose(shares.sum(1), torch.ones(count).double())
    assert torch.equal(shares.argmax(1), truth)


def test_graph_smaller_than_the_coordinates_has_fewer() -> None:
    rows = spectral_coordinates(torch.tensor([[0, 1], [1, 0]]), 3, 32, 0.1)
    assert rows.shape == (3, 2)
    assert np.isfinite(rows).all()


def test_no_known_label_leaves_equal_shares() -> None:
    shares = regress_classes(np.eye(4), torch.full((4,), -1), 2)
    assert torch.allclose(shares, torch.full((4, 2), 0.5).double())


def test_product_of_shares_sums_to_one_where_one_factor_is_zero() -> None:
    product = multiply_shares(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]))
    assert torch.allclose(product, torch.tensor([[0.5, 0.5]]))


def test_many_components_leave_the_same_coordinates_each_time() -> None:
    """Pairs of nodes beside the cliques add eigenvectors of value 1, which nothing determines."""
    count, pairs = SIZE * PARTS, 300
    first = torch.arange(count, count + 2 * pairs, 2)
    apart = torch.stack([first, first + 1])
    edges = torch.cat([ring_of_cliques(), apart, apart.flip(0)], 1)
    coordinate_pairs = [spectral_coordinates(edges, count + 2 * pairs, 4, 0.1) for _ in range(2)]
    assert np.array_equal(coordinate_pairs[0], coordinate_pairs[1])
    assert not coordinate_pairs[0][count:].any()
    alone = spectral_coordinates(ring_of_cliques(), count, 4, 0.1)
    assert np.allclose(coordinate_pairs[0][:count] @ coordinate_pairs[0][:count].T, alone @ alone.T)
