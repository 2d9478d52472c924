"""Sums over closed neighbourhoods: the parts add up, and what they give away is counted."""

from __future__ import annotations

import pytest
import torch

from securefg.data.graph import undirected
from securefg.models import neighbourhoods
from securefg.models.gcn import normalized_adjacency
from securefg.models.neighbourhoods import Neighbourhoods, spread_latents
from securefg.secagg import exposure

PATH = undirected(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]), 6)  # and node 5 alone


def latents() -> torch.Tensor:
    return torch.randn(6, 3, generator=torch.Generator().manual_seed(0))


def test_the_parts_of_all_nodes_add_up_to_the_sums_of_large_enough_neighbourhoods() -> None:
    whose, weight = Neighbourhoods(PATH, 6, least=3).of_each()
    found = spread_latents(latents(), whose, weight, 6).sum(0)
    wanted = normalized_adjacency(PATH, 6) @ latents()
    assert torch.allclose(found[1:4], wanted[1:4], atol=1e-6)
    assert not found[[0, 4, 5]].any()  # two in the sum, or one


def test_a_node_contributes_to_no_sum_but_its_neighbours_and_its_own() -> None:
    whose, weight = Neighbourhoods(PATH, 6, least=1).of_each()
    parts = spread_latents(latents(), whose, weight, 6)
    touched = [row.abs().sum(1).nonzero().flatten().tolist() for row in parts]
    assert touched == [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4], [5]]


def test_the_gradient_goes_back_through_the_sums() -> None:
    sums, z = Neighbourhoods(PATH, 6, least=3), latents().requires_grad_()
    target = torch.arange(18.0).view(6, 3)
    loss = (spread_latents(z, *sums.of_each(), 6).sum(0) * target).sum()
    (wanted,) = torch.autograd.grad(loss, z)
    assert torch.allclose(sums.back(target), wanted, atol=1e-5)


def test_sums_that_can_be_solved_are_found_out() -> None:
    # Node 5 is alone in its sum; of the path, (1, -1, 0, 1, -1) hides all but the middle.
    assert Neighbourhoods(PATH, 6, least=1).num_exposed([0, 1, 2, 3, 4, 5]) == 2
    assert Neighbourhoods(PATH, 6, least=3).num_exposed([0, 1, 2, 3, 4, 5]) == 0
    cycle = undirected(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), 4)
    assert Neighbourhoods(cycle, 4, least=3).num_exposed([0, 1, 2, 3]) == 4
    triangle = undirected(torch.tensor([[0, 1, 2], [1, 2, 0]]), 3)
    assert Neighbourhoods(triangle, 3, least=3).num_exposed([0, 1, 2]) == 0
    assert Neighbourhoods(triangle, 3, least=3).num_exposed([1]) == 1  # the other two fell silent


def test_a_graph_too_large_to_solve_counts_as_exposed(monkeypatch: pytest.MonkeyPatch) -> None:
    triangle = undirected(torch.tensor([[0, 1, 2], [1, 2, 0]]), 3)
    monkeypatch.setattr(exposure, "LARGEST_BLOCK", 2)
    assert neighbourhoods.Neighbourhoods(triangle, 3, least=3).num_exposed([0, 1, 2]) == 3
