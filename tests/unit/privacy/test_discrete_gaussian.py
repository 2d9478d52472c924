"""The sampler follows the discrete Gaussian law, and a sum of it has the planned worth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from securefg.foundation.errors import ConfigError
from securefg.privacy import discrete_gaussian
from securefg.privacy.discrete_gaussian import cdf_table, rho_of_sum, sample, sum_gap
from securefg.secagg.prg import Keystream
from securefg.secagg.secret import Secret


def stream(number: int) -> Keystream:
    return Keystream(Secret(number.to_bytes(32, "big")))


def law(sigma: float, reach: int) -> np.ndarray:
    weights = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * sigma**2))
    return weights / weights.sum()


@pytest.mark.parametrize("sigma", [0.5, 3.0, 10.0, 100.0, 1000.0])
def test_samples_pass_a_chi_square_test(sigma: float) -> None:
    count, reach = 1_000_000, math.ceil(3.5 * sigma)
    drawn = np.clip(sample(sigma, count, stream(1).read), -reach - 1, reach + 1)
    wide = math.ceil(14 * sigma)
    wanted = law(sigma, wide)
    tail = wanted[: wide - reach].sum()
    inner = wanted[wide - reach : wide + reach + 1]
    expected = count * np.concatenate([[tail], inner, [tail]])
    drawn_counts = np.bincount(drawn + reach + 1, minlength=len(expected))
    # Cells that expect little are put together, so that the statistic has its limiting law.
    groups = np.unique(np.floor(np.cumsum(expected) / 50), return_inverse=True)[1]
    drawn_counts, expected = np.bincount(groups, drawn_counts), np.bincount(groups, expected)
    keep = expected > 5
    statistic = ((drawn_counts - expected)[keep] ** 2 / expected[keep]).sum()
    assert stats.chi2.sf(statistic, keep.sum() - 1) > 1e-3


def test_the_chi_square_test_notices_a_sigma_off_by_two_percent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = cdf_table
    monkeypatch.setattr(discrete_gaussian, "cdf_table", lambda sigma: right(1.02 * sigma))
    with pytest.raises(AssertionError):
        test_samples_pass_a_chi_square_test(100.0)


@pytest.mark.parametrize("sigma", [3.0, 40.0])
def test_a_sum_over_clients_has_the_planned_variance(sigma: float) -> None:
    num_clients, dim = 20, 200_000
    total = sample(sigma, (num_clients, dim), stream(2).read).sum(0)
    assert abs(total.var() / (num_clients * sigma**2) - 1) < 0.01
    assert abs(total.mean()) < 5 * sigma * math.sqrt(num_clients / dim)


@pytest.mark.parametrize("sigma", [0.5, 3.0, 1000.0])
def test_thresholds_are_symmetric_and_right_to_128_bits(sigma: float) -> None:
    table = cdf_table(sigma)
    thresholds = [
        (int(high) << 64) + int(low) for high, low in zip(table.high, table.low, strict=True)
    ]
    assert thresholds == sorted(thresholds)
    assert all(a + b == 2**128 for a, b in zip(thresholds, reversed(thresholds), strict=True))
    probabilities = np.diff([0, *thresholds, 2**128]).astype(float) / 2.0**128
    bulk = slice(len(probabilities) // 4, -len(probabilities) // 4)
    assert np.allclose(probabilities[bulk], law(sigma, table.reach)[bulk], rtol=1e-9)


def test_either_tail_left_out_is_less_than_two_to_the_minus_128() -> None:
    for sigma in (0.5, 1.0, 3.0, 1000.0):
        beyond = cdf_table(sigma).reach + 1 + np.arange(math.ceil(10 * sigma))
        tail = np.exp(-(beyond**2) / (2 * sigma**2)).sum()
        assert tail / max(1.0, math.sqrt(2 * math.pi) * sigma) < 2.0**-128


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_the_low_word_decides_where_the_high_words_are_equal(offset: int) -> None:
    table = cdf_table(3.0)
    at = table.reach  # the threshold between 0 and 1
    low = int(table.low[at]) + offset
    words = [int(table.high[at]).to_bytes(8, "little"), low.to_bytes(8, "little")]
    drawn = sample(3.0, 1, lambda num_bytes: words.pop(0))
    assert drawn.tolist() == [0 if offset < 0 else 1]
    assert not words


def test_extreme_words_stay_within_the_table() -> None:
    table = cdf_table(3.0)
    for word in (b"\x00" * 8, b"\xff" * 8):
        drawn = sample(3.0, 1, lambda num_bytes, word=word: word)
        assert abs(int(drawn[0])) == table.reach


def test_guided_and_searched_samples_agree() -> None:
    table = cdf_table(17.5)
    words = np.frombuffer(stream(3).read(8 * 5000), "<u8")
    searched = np.searchsorted(table.high, words, side="right") - table.reach
    assert np.array_equal(sample(17.5, 5000, stream(3).read), searched)


def test_noise_is_fresh_unless_a_source_is_given() -> None:
    assert not np.array_equal(sample(100.0, 50), sample(100.0, 50))
    assert np.array_equal(sample(100.0, 50, stream(4).read), sample(100.0, 50, stream(4).read))


@pytest.mark.parametrize("shape", [0, 7, (3, 5), (2, 40_000)])
def test_samples_come_in_the_shape_asked_for(shape: int | tuple[int, ...]) -> None:
    assert sample(5.0, shape).shape == np.empty(shape).shape


@pytest.mark.parametrize("sigma", [0.0, 0.49, -3.0, 2.0**17, math.nan, math.inf])
def test_a_sigma_without_a_table_is_refused(sigma: float) -> None:
    with pytest.raises(ConfigError, match="sigma of the discrete Gaussian"):
        sample(sigma, 1)


def test_rho_of_one_noise_is_that_of_the_discrete_gaussian() -> None:
    """Canonne et al. 2020, Theorem 4: rho = D^2 / 2 sigma^2, for one noise without any gap."""
    assert rho_of_sum(2.0, 5.0, 1, 1000) == pytest.approx(4 / 50)


def test_rho_of_many_noises_is_that_of_their_summed_variance() -> None:
    assert rho_of_sum(100.0, 50.0, 16, 10**6) == pytest.approx(100**2 / (2 * 16 * 50**2))


def test_rho_at_a_small_sigma_pays_for_the_gap() -> None:
    tau = 10 * math.exp(-2 * math.pi**2 * 0.25 * 0.5)
    assert sum_gap(0.5, 2) == pytest.approx(tau)
    ratio = 1 / (math.sqrt(2) * 0.5)
    wanted = min(ratio**2 / 2 + tau * 4, (ratio + tau * 2) ** 2 / 2)
    assert rho_of_sum(1.0, 0.5, 2, 4) == pytest.approx(wanted)
    assert wanted > ratio**2 / 2


@pytest.mark.parametrize("sigma", [0.5, 0.6, 0.8, 1.0])
@pytest.mark.parametrize("num_noises", [1, 2, 5])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_rho_bounds_the_renyi_divergence_of_the_summed_law(
    sigma: float, num_noises: int, shift: int
) -> None:
    """D_a(P + shift || P) <= rho a, with P the convolution of the laws, computed outright."""
    one = law(sigma, math.ceil(9 * sigma))
    total = one
    for _ in range(num_noises - 1):
        total = np.convolve(total, one)
    moved, fixed = total[:-shift], total[shift:]
    seen = (moved > 1e-250) & (fixed > 1e-250)
    rho = rho_of_sum(shift, sigma, num_noises, 1)
    for order in (1.01, 1.5, 2.0, 4.0):
        exponents = order * np.log(moved[seen]) + (1 - order) * np.log(fixed[seen])
        divergence = np.logaddexp.reduce(exponents) / (order - 1)
        assert divergence <= rho * order * (1 + 1e-9)


def test_the_gap_vanishes_from_sigma_3_on() -> None:
    assert sum_gap(3.0, 10**6) * 10**9 < 1e-27


@pytest.mark.parametrize("arguments", [(0, 3, 1, 1), (1, 0.1, 1, 1), (1, 3, 0, 1), (1, 3, 1, 0)])
def test_rho_refuses_what_it_has_no_theorem_for(
    arguments: tuple[float, float, int, int],
) -> None:
    with pytest.raises(ConfigError, match="wanted positive numbers"):
        rho_of_sum(*arguments)
