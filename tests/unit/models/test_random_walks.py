"""Walks follow edges, start everywhere, and are uniform over neighbours."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch

from securefg.models.skip_gram import Neighbours, random_walks

# 0 - 1 - 2, 1 - 3, and 4 by itself
EDGES = torch.tensor([[0, 1, 1, 1, 2, 3], [1, 0, 2, 3, 1, 1]])


def walks(num_walks: int, length: int) -> np.ndarray:
    return random_walks(Neighbours.of(EDGES, 5), num_walks, length, np.random.default_rng(0))


def test_every_step_is_an_edge() -> None:
    edges = set(zip(*EDGES.tolist(), strict=True))
    for walk in walks(3, 6).tolist():
        assert set(pairwise(walk)) <= edges


def test_every_node_with_a_neighbour_starts_so_many_walks() -> None:
    starts = np.bincount(walks(7, 3)[:, 0], minlength=5)
    assert starts.tolist() == [7, 7, 7, 7, 0]


def test_steps_are_uniform_over_the_neighbours() -> None:
    found = walks(3000, 2)
    after = np.bincount(found[found[:, 0] == 1, 1], minlength=5)
    assert after.sum() == 3000
    assert np.abs(after[[0, 2, 3]] - 1000).max() < 5 * np.sqrt(3000 * 2 / 9)


def test_degrees_count_isolated_nodes_as_zero() -> None:
    assert Neighbours.of(EDGES, 5).degrees.tolist() == [1, 3, 1, 1, 0]
