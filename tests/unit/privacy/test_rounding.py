"""Rounding is unbiased, on the grid, and never passes the norm that the accounting assumes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefg.foundation.errors import ConfigError, PrivacyError
from securefg.privacy.defences.distributed_discrete import (
    DistributedDiscrete,
    RoundingPlan,
    round_rows,
)


def clipped_rows(num_rows: int, plan: RoundingPlan, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(num_rows, plan.dim))
    return plan.clip_l2 * rows / np.linalg.norm(rows, axis=1, keepdims=True)


@settings(max_examples=40, deadline=None)
@given(
    st.floats(0.1, 10),
    st.floats(0.5, 5000),
    st.integers(1, 200),
    st.sampled_from([0.0, math.exp(-0.5), 0.9]),
    st.integers(0, 2**32 - 1),
)
def test_no_rounded_row_passes_the_bound(
    clip_l2: float, scale: float, dim: int, beta: float, seed: int
) -> None:
    plan = RoundingPlan(clip_l2, scale, dim, beta)
    rows = clipped_rows(8, plan, seed)
    rounded = round_rows(rows, plan, np.random.default_rng(seed))
    assert np.linalg.norm(rounded, axis=1).max() <= plan.norm_bound
    assert np.abs(rounded - plan.scale * rows).max() < 1


class CountingRng(np.random.Generator):
    """Counts the rows that were rounded, tries that failed included."""

    rows = 0

    def random(self, size: tuple[int, int]) -> np.ndarray:  # type: ignore[override]
        self.rows += size[0]
        return np.random.Generator.random(self, size)


def test_only_rows_above_the_bound_try_again() -> None:
    """At beta near 1 the bound is little above the mean of the squared norm."""
    plan = RoundingPlan(clip_l2=10.0, scale=1.0, dim=400, beta=0.999)
    rows = np.full((200, 400), 0.5)
    rng = CountingRng(np.random.PCG64(0))
    rounded = round_rows(rows, plan, rng)
    assert np.linalg.norm(rounded, axis=1).max() <= plan.norm_bound
    assert 200 < rng.rows < 200 * 10


def test_rounding_has_no_bias_where_it_hardly_tries_again() -> None:
    plan = RoundingPlan(clip_l2=10.0, scale=4096.0, dim=4)
    rows = np.tile([0.1234567, -0.7654321, 2.5, 0.0], (100_000, 1))
    mean = round_rows(rows, plan, np.random.default_rng(1)).mean(0) / plan.scale
    assert np.abs(mean - rows[0]).max() < 5 * 0.5 / (plan.scale * math.sqrt(100_000))


def test_the_bound_is_the_papers() -> None:
    """Values of the published bound with gamma = 1 / scale, turned into steps of the grid."""
    gamma, dim = 1e-2, 10**9
    plan = RoundingPlan(clip_l2=1.0, scale=1 / gamma, dim=dim, beta=0.5)
    assert plan.norm_bound * gamma == pytest.approx(158.12296930808552)
    c, root = 1 / gamma, math.sqrt(dim)
    by_hand = math.sqrt(c * c + dim / 4 + math.sqrt(2 * math.log(2)) * (c + root / 2))
    assert plan.norm_bound == pytest.approx(by_hand)


def test_without_beta_the_bound_holds_always() -> None:
    assert RoundingPlan(2.0, 10.0, 100, beta=0.0).norm_bound == pytest.approx(30.0)


def test_a_fine_grid_inflates_the_norm_by_little() -> None:
    plan = RoundingPlan(clip_l2=1.0, scale=2.0**16, dim=10_000)
    assert plan.norm_bound / plan.scale < 1.00002


@pytest.mark.parametrize("factor", [1.001, 10.0, math.nan, math.inf])
def test_rows_that_were_not_clipped_are_refused(factor: float) -> None:
    plan = RoundingPlan(clip_l2=1.0, scale=100.0, dim=5)
    rows = clipped_rows(3, plan, 0)
    rows[1] *= factor
    with pytest.raises(PrivacyError, match="1 of 3 rows are not clipped"):
        round_rows(rows, plan, np.random.default_rng(0))


def test_rows_of_another_dimension_are_refused() -> None:
    plan = RoundingPlan(clip_l2=1.0, scale=100.0, dim=5)
    with pytest.raises(PrivacyError, match="planned were"):
        round_rows(np.zeros((2, 6)), plan, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("change", "name"),
    [({"beta": 1.0}, "beta"), ({"beta": -0.1}, "beta"), ({"scale": 0.0}, "scale")],
)
def test_plans_out_of_range_are_refused(change: dict[str, float], name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        RoundingPlan(**({"clip_l2": 1.0, "scale": 1.0, "dim": 3} | change))  # type: ignore[arg-type]


@pytest.mark.parametrize("beta", [0.0, math.exp(-0.5)])
@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
def test_rows_at_a_clip_of_millions_of_steps_are_rounded_within_the_bound(
    beta: float, scale: float
) -> None:
    """A slack relative to the clip would be larger than all that rounding adds."""
    plan = RoundingPlan(clip_l2=2e4, scale=scale, dim=300, beta=beta)
    rows = clipped_rows(50, plan, 0)
    rounded = round_rows(rows, plan, np.random.default_rng(0))
    assert np.linalg.norm(rounded, axis=1).max() <= plan.norm_bound


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([1.0, 2e4]),
    st.floats(0.5, 900),
    st.integers(1, 60),
    st.floats(0, 5),
    st.integers(0, 2**32 - 1),
)
def test_neighbours_rounded_by_the_same_draws_are_as_near_as_booked(
    clip_l2: float, scale: float, dim: int, distance: float, seed: int
) -> None:
    rule = DistributedDiscrete(
        clip_l2, 1.0, "message", scale=scale, least_noises=4, moved_l2=distance
    )
    plan, rng = rule.plan_for(dim), np.random.default_rng(seed)
    rows = clipped_rows(20, plan, seed) * rng.random((20, 1))
    apart = rng.normal(size=rows.shape)
    others = rows + distance * apart / np.linalg.norm(apart, axis=1, keepdims=True)
    others *= np.minimum(1, clip_l2 / np.linalg.norm(others, axis=1, keepdims=True))
    one, other = (round_rows(each, plan, np.random.default_rng(seed)) for each in (rows, others))
    moved = np.linalg.norm(one - other, axis=1).max()
    assert moved <= min(rule.moved_steps(distance, plan), rule.widest_distance(plan))


def test_a_row_whose_distance_counts_is_never_rounded_again() -> None:
    """Draws of its own for one neighbour would move it by 2 sqrt(d), and sqrt(d) is booked."""
    rule = DistributedDiscrete(3.0, 1.0, "message", least_noises=4, moved_l2=0.1)
    rng = CountingRng(np.random.PCG64(0))
    round_rows(np.full((500, 9), 1 - 1e-12), rule.plan_for(9), rng)
    assert rng.rows == 500
