"""Normals drawn for many seeds at once are those of the generators themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from audits.generators import FIRST, first_normals

SEEDS = [
    *range(2000),
    *(1_700_000_000_123_456 + i for i in range(3000)),  # microseconds of a clock
    *(2**62 + 7919 * i for i in range(500)),
    *(2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**64 + 5, 2**100),
]


def _drawn(which: int, seed: int) -> np.ndarray:
    if which == 0:
        return np.random.default_rng(seed).standard_normal(FIRST)
    if which == 1:
        return np.random.RandomState(seed % 2**32).standard_normal(FIRST)
    generator = torch.Generator().manual_seed(seed % 2**63)
    dtype = torch.float64 if which == 2 else torch.float32
    return torch.randn(FIRST, generator=generator, dtype=dtype).numpy()


@pytest.mark.parametrize("which", range(4), ids=["numpy", "legacy", "torch double", "torch single"])
def test_rows_are_those_of_the_generator(which: int) -> None:
    rows = first_normals(SEEDS).reshape(len(SEEDS), 4, FIRST)[:, which]
    known = np.array([_drawn(which, seed) for seed in SEEDS], np.float32)
    assert rows.shape == known.shape
    assert float(np.abs(rows - known).max()) < 1e-5


def test_nothing_is_drawn_for_no_seed() -> None:
    assert first_normals([]).shape == (0, FIRST)
