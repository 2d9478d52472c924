"""The grid rounds within its bound, adds exactly, and refuses what could overflow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from securefg.foundation.errors import ConfigError, RunFailed
from securefg.secagg.quantise import Grid
from securefg.secagg.ring import Ring

REALS = st.lists(st.floats(-2, 2), min_size=1, max_size=20).map(np.array)


@settings(max_examples=40, deadline=None)
@given(REALS, st.sampled_from([32, 64]))
def test_rounding_stays_within_the_reported_bound(values: np.ndarray, bits: int) -> None:
    grid = Grid(num_clients=10, clip=2.0, scale=1000.0, ring=Ring(bits))
    back = grid.dequantise_total(grid.quantise_values(values))
    assert np.all(np.abs(back - values) <= grid.error_bound() + 1e-12)


@settings(max_examples=40, deadline=None)
@given(REALS)
def test_stochastic_rounding_stays_within_its_bound(values: np.ndarray) -> None:
    grid = Grid(num_clients=10, clip=2.0, scale=1000.0)
    back = grid.dequantise_total(grid.quantise_values(values, np.random.default_rng(0)))
    assert np.all(np.abs(back - values) <= grid.error_bound(stochastic=True) + 1e-12)


def test_stochastic_rounding_has_no_bias() -> None:
    grid = Grid(num_clients=1, clip=1.0, scale=1.0)
    drawn = grid.dequantise_total(
        grid.quantise_values(np.full(100_000, 0.3), np.random.default_rng(1))
    )
    assert abs(drawn.mean() - 0.3) < 5 * np.sqrt(0.21 / 100_000)


def test_the_worst_case_adds_up_without_wrapping() -> None:
    grid = Grid(num_clients=4, clip=1.0, scale=(2**31 - 1) // 4)
    worst = grid.quantise_values(np.full((4, 2), -1.0))
    total = worst.sum(0, dtype=np.uint32)
    assert np.array_equal(grid.dequantise_total(total), [-4.0, -4.0])


@pytest.mark.parametrize("bits", [32, 64])
def test_one_step_more_than_fits_is_refused(bits: int) -> None:
    room = (2 ** (bits - 1) - 1) // 4
    Grid(num_clients=4, clip=1.0, scale=room * (1 - 2.0**-50), ring=Ring(bits))
    with pytest.raises(ConfigError, match="could overflow"):
        Grid(num_clients=4, clip=1.0, scale=room + room // 1000, ring=Ring(bits))


def test_the_refusal_names_the_numbers_and_what_to_change() -> None:
    with pytest.raises(ConfigError) as caught:
        Grid(num_clients=1000, clip=2.0, scale=65536.0, max_weight=50.0)
    for part in ("1000 clients", "100 (weight * clip)", "scale 65536", "6553600000", "2^31 - 1"):
        assert part in str(caught.value)
    assert "scale of at most 21474.8" in str(caught.value)
    assert "64 bits" in str(caught.value)


def test_the_scale_that_the_refusal_suggests_is_accepted() -> None:
    Grid(num_clients=1000, clip=2.0, scale=21474.8, max_weight=50.0)


def test_the_noise_tail_counts() -> None:
    quiet = Grid(num_clients=100, clip=1.0, scale=2.0**24)
    with pytest.raises(ConfigError, match="noise tail"):
        Grid(num_clients=100, clip=1.0, scale=quiet.scale, noise_sigma=1e7)


def test_a_sum_of_noise_stays_within_its_tail() -> None:
    grid = Grid(num_clients=50, clip=1.0, scale=100.0, noise_sigma=10.0, dim=1000)
    sums = np.random.default_rng(2).normal(0, 10.0, (50, 1000)).sum(0)
    assert np.abs(sums).max() < grid.noise_tail < 12 * 10.0 * np.sqrt(50)


def test_noise_without_room_for_any_scale_is_refused() -> None:
    with pytest.raises(ConfigError, match="less noise"):
        Grid(num_clients=10, clip=1.0, scale=1.0, noise_sigma=1e9)


@pytest.mark.parametrize("change", [{"clip": 0.0}, {"scale": -1.0}, {"max_weight": 0.0}])
def test_settings_out_of_range_are_refused(change: dict[str, float]) -> None:
    plan = {"num_clients": 2, "clip": 1.0, "scale": 1.0} | change
    with pytest.raises(ConfigError, match=next(iter(change))):
        Grid(**plan)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(RunFailed, match="NaN or infinity"):
        Grid(num_clients=2, clip=1.0, scale=1.0).quantise_values(np.array([0.0, value]))


def test_values_beyond_the_clip_are_clipped() -> None:
    grid = Grid(num_clients=2, clip=1.0, scale=10.0)
    values = np.array([-3.0, 0.5, 1.0, 2.0])
    assert grid.dequantise_total(grid.quantise_values(values)).tolist() == [-1.0, 0.5, 1.0, 1.0]


def test_a_ring_refuses_what_it_cannot_hold() -> None:
    ring = Ring(32)
    assert ring.to_signed(ring.from_signed(np.array([-(2**31), 2**31 - 1]))).tolist() == [
        -(2**31),
        2**31 - 1,
    ]
    for value in (2**31, -(2**31) - 1):
        with pytest.raises(ConfigError, match="outside the signed 32-bit ring"):
            ring.from_signed(np.array([value]))
    with pytest.raises(ConfigError, match="wanted one of"):
        Ring(16)
