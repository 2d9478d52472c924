"""Alignment finds rotations exactly, ranks counterparts, and averages in everybody's own space."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from securefg.models.procrustes import (
    align_rows,
    alignment_precision,
    find_rotation,
    mean_seen_by,
    rotate_rows,
)


def rows(seed: int, count: int = 40, dim: int = 4) -> Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))


def turn(seed: int, dim: int = 4) -> Tensor:
    return torch.linalg.qr(rows(seed, dim, dim))[0]


def test_a_rotation_is_found_exactly() -> None:
    by = turn(1)
    assert torch.allclose(find_rotation(rows(0), rows(0) @ by), by, atol=1e-5)


def test_the_rotation_is_orthogonal_and_the_best_there_is() -> None:
    source, target = rows(0), rows(1)
    found = find_rotation(source, target)
    assert torch.allclose(found @ found.T, torch.eye(4), atol=1e-5)
    best = (source @ found - target).square().sum()
    assert all(best <= (source @ turn(seed) - target).square().sum() for seed in range(20))


def test_all_blocks_turn_alike() -> None:
    by, one, other = turn(2), rows(0), rows(1)
    both = rotate_rows(torch.cat([one, other], 1), by)
    assert torch.allclose(both, torch.cat([one @ by, other @ by], 1))


def test_precision_is_one_up_to_rotation_and_chance_without_relation() -> None:
    same = alignment_precision([rows(0), rows(0) @ turn(1), rows(0) @ turn(2)], (1, 5))
    assert same == {1: 1.0, 5: 1.0}
    apart = alignment_precision([rows(0, 400), rows(1, 400)], (1, 10))
    assert apart[1] < 0.05
    assert apart[1] <= apart[10] < 0.2


def test_the_mean_of_rotated_copies_is_everybodys_own() -> None:
    own, ones = rows(0), torch.ones(2, 40)
    others = torch.stack([own @ turn(1), own @ turn(2)])
    assert torch.allclose(mean_seen_by(own, others, ones, ones[0], 4), own, atol=1e-5)


def test_the_mean_is_the_papers() -> None:
    own, others = rows(0), torch.stack([rows(1), rows(2)])
    ones = torch.ones(2, 40)
    wanted = (own + align_rows(others[0], own) + align_rows(others[1], own)) / 3
    assert torch.allclose(mean_seen_by(own, others, ones, ones[0], 4), wanted, atol=1e-5)


def test_a_row_counts_by_its_weight_and_stays_where_nobody_has_a_say() -> None:
    own_rows, other = rows(0), rows(1)
    weights, own_weights = torch.ones(1, 40), torch.zeros(40)
    weights[0, 7] = 0
    mean = mean_seen_by(own_rows, other[None], weights, own_weights, 4)
    turned = align_rows(other, own_rows)
    assert torch.equal(mean[7], own_rows[7])
    assert torch.allclose(mean[8], turned[8])


@pytest.mark.parametrize("count", [0, 1])
def test_one_matrix_has_no_pair(count: int) -> None:
    assert alignment_precision([rows(0)] * count, (1,)) == {}
