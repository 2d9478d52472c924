"""The claimed epsilon is right, grows with each release, and is infinite where noise is missing."""

from __future__ import annotations

import math
from dataclasses import replace

import dp_accounting
import pytest
from dp_accounting import rdp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from securefg.privacy.accountants import (
    Claim,
    Step,
    calibrate_noise,
    claim,
    claim_units,
    exact_gaussian,
    steps_for,
    tightest,
)
from securefg.privacy.dp_accounting_library import pld_accountant, rdp_accountant
from securefg.privacy.ledger import Ledger, Mechanism, Release
from securefg.protocol.codec import Clients

# (noise multiplier, sampling, count, delta) -> epsilon
KNOWN = [
    (1.0, 1.0, 1, 1e-5, 4.37718),
    (5.0, 1.0, 100, 1e-5, 9.99726),
    (1.0, 0.01, 1000, 1e-5, 1.8282),
    (1.0, 0.1, 100, 1e-6, 8.0586),
    (1.5, 0.04, 2250, 1e-5, 6.7688),
]
multipliers = st.floats(0.3, 50)
deltas = st.sampled_from([1e-3, 1e-5, 1e-9])


def noised(
    field: str = "Update.weights", multiplier: float = 1.0, rows: int | None = None
) -> Mechanism:
    return Mechanism(
        field=field,
        rule="local_gaussian",
        per="message" if rows is None else "row",
        noise_multiplier=multiplier,
        num_rows=rows or 1,
    )


def plain(field: str = "Update.labels") -> Mechanism:
    return Mechanism(field=field, rule="plain")


# --------------------------------------------------------------------------------- known values


@pytest.mark.parametrize(("multiplier", "sampling", "count", "delta", "epsilon"), KNOWN)
def test_the_tightest_accountant_gives_the_known_values(
    multiplier: float, sampling: float, count: int, delta: float, epsilon: float
) -> None:
    assert tightest((Step(multiplier, count, sampling),), delta) == pytest.approx(epsilon, abs=1e-4)


@pytest.mark.parametrize(("mu", "epsilon"), [(1.0, 4.3772), (0.5, 1.9931), (2.0, 9.9973)])
def test_one_gaussian_of_known_mu_has_its_known_epsilon(mu: float, epsilon: float) -> None:
    assert exact_gaussian((Step(1 / mu, 1),), 1e-5) == pytest.approx(epsilon, abs=1e-4)


@pytest.mark.parametrize(
    ("steps", "delta"),
    [
        ((Step(0.7, 1),), 1e-5),
        ((Step(8.0, 40),), 1e-6),
        ((Step(1.5, 2), Step(6.0, 9)), 1e-5),
    ],
)
def test_the_exact_gaussian_equals_the_loss_distribution(
    steps: tuple[Step, ...], delta: float
) -> None:
    assert exact_gaussian(steps, delta) == pytest.approx(pld_accountant(steps, delta), abs=1e-4)


@given(multipliers, st.integers(1, 500), deltas)
def test_the_exact_epsilon_solves_the_trade_off(
    multiplier: float, count: int, delta: float
) -> None:
    """delta(eps) of Balle and Wang at the epsilon returned, away from where doubles run out."""
    epsilon = exact_gaussian((Step(multiplier, count),), delta)
    mu = math.sqrt(count) / multiplier
    second = math.exp(epsilon + float(norm.logcdf(-epsilon / mu - mu / 2)))
    exact_delta = float(norm.cdf(-epsilon / mu + mu / 2)) - second
    if epsilon == 0:
        assert exact_delta <= delta * (1 + 1e-9)
    else:
        assert exact_delta == pytest.approx(delta, rel=1e-3, abs=1e-13)


@given(multipliers, st.integers(1, 200), deltas)
def test_renyi_is_never_below_the_exact_epsilon(
    multiplier: float, count: int, delta: float
) -> None:
    steps = (Step(multiplier, count),)
    assert rdp_accountant(steps, delta) >= exact_gaussian(steps, delta) - 1e-9


# ---------------------------------------------------------------------------------- composition


def test_no_release_costs_nothing() -> None:
    assert tightest((), 1e-5) == 0.0
    assert exact_gaussian((), 1e-5) == 0.0
    assert claim([], "client", 1e-5) == Claim("client", 0.0, 1e-5)
    assert claim([{noised(): 0, plain(): 0}], "client", 1e-5).epsilon == 0.0


@settings(max_examples=50)
@given(multipliers, st.integers(0, 300), st.integers(1, 300), deltas)
def test_epsilon_grows_with_the_number_of_releases(
    multiplier: float, count: int, more: int, delta: float
) -> None:
    before = tightest((Step(multiplier, count),), delta)
    assert 0 <= before <= tightest((Step(multiplier, count + more),), delta)


@settings(max_examples=50)
@given(multipliers, st.floats(1.01, 3), st.integers(1, 300), deltas)
def test_more_noise_costs_less(multiplier: float, factor: float, count: int, delta: float) -> None:
    assert tightest((Step(multiplier * factor, count),), delta) <= tightest(
        (Step(multiplier, count),), delta
    )


def test_releases_of_different_noise_compose_by_their_squares() -> None:
    """1/1 + 4/4 = 2 = 1 / 0.7071^2."""
    together = exact_gaussian((Step(1.0, 1), Step(2.0, 4)), 1e-5)
    assert together == pytest.approx(exact_gaussian((Step(math.sqrt(0.5), 1),), 1e-5), abs=1e-9)


def test_sampled_and_whole_releases_compose() -> None:
    steps = (Step(2.0, 10, 0.1), Step(6.0, 5))
    tightest_epsilon = tightest(steps, 1e-5)
    assert tightest_epsilon == pytest.approx(pld_accountant(steps, 1e-5), abs=1e-9)
    assert (
        max(tightest((step,), 1e-5) for step in steps)
        < tightest_epsilon
        < exact_gaussian((Step(2.0, 10), Step(6.0, 5)), 1e-5)
    )


def test_the_exact_accountant_refuses_sampling() -> None:
    with pytest.raises(ValueError, match="knows no sampling"):
        exact_gaussian((Step(1.0, 1, 0.5),), 1e-5)


def test_a_huge_sampled_epsilon_goes_by_renyi() -> None:
    steps = (Step(0.3, 500, 0.5),)
    assert tightest(steps, 1e-5) == rdp_accountant(steps, 1e-5) > 60


# ---------------------------------------------------------------------------------------- units


def test_rows_bound_the_client_by_the_root_of_their_number() -> None:
    profile = {noised(multiplier=6.0, rows=9): 3}
    assert steps_for(profile, "client") == ((Step(2.0, 3),), ())
    assert steps_for(profile, "row") == ((Step(6.0, 3),), ())


def test_a_whole_message_bounds_each_of_its_rows() -> None:
    profile = {noised(multiplier=6.0): 3}
    assert steps_for(profile, "row") == steps_for(profile, "client") == ((Step(6.0, 3),), ())


def test_equal_noise_of_two_fields_is_one_step() -> None:
    profile = {noised("Update.a", 2.0): 3, noised("Update.b", 2.0): 4, noised("Update.c", 5.0): 1}
    assert steps_for(profile, "client") == ((Step(2.0, 7), Step(5.0, 1)), ())


def test_every_unit_that_occurs_gets_its_claim() -> None:
    ledger = Ledger(1)
    ledger.record([Release(noised(), Clients(((0, 1),)), 1, 1)])
    assert [c.unit for c in claim_units(ledger, 1e-5)] == ["client", "node", "edge"]
    ledger.record([Release(noised("Update.rows", 4.0, rows=4), Clients(((0, 1),)), 1, 1)])
    by_client, by_row, *_ = claim_units(ledger, 1e-5)
    assert (by_client.unit, by_row.unit) == ("client", "row")
    assert by_client.epsilon == tightest((Step(1.0, 1), Step(2.0, 1)), 1e-5)
    assert by_row.epsilon == tightest((Step(1.0, 1), Step(4.0, 1)), 1e-5)
    assert by_row.epsilon < by_client.epsilon


def test_a_ledger_without_releases_claims_zero() -> None:
    for found in claim_units(Ledger(3), 1e-5):
        assert found.epsilon == 0.0
        assert found.private


@pytest.mark.parametrize("unit", ["client", "row"])
def test_an_unnoised_field_beside_a_noised_one_is_infinite_and_named(unit: str) -> None:
    profile = {noised(): 5, plain("Update.sizes"): 1, plain("Update.labels"): 2}
    found = claim([profile], unit, 1e-5)  # type: ignore[arg-type]
    assert found.epsilon == math.inf
    assert not found.private
    assert found.because == ("Update.labels", "Update.sizes")


def test_the_claim_is_that_of_the_worst_client() -> None:
    found = claim([{noised(): 1}, {noised(): 5}, {noised(): 3}], "client", 1e-5)
    assert found.epsilon == tightest((Step(1.0, 5),), 1e-5)
    assert found.because == ()


def test_one_client_without_noise_makes_the_claim_infinite() -> None:
    found = claim([{noised(): 1, plain(): 0}, {noised(): 1, plain(): 1}], "client", 1e-5)
    assert found.epsilon == math.inf


# ---------------------------------------------------------------------------------- calibration


@pytest.mark.parametrize("target", [0.01, 0.5, 1.0, 4.37718, 8.0, 50.0])
@pytest.mark.parametrize("unit", ["client", "row"])
def test_calibration_hits_the_target(target: float, unit: str) -> None:
    planned = {noised(): 20, noised("Update.rows", rows=30): 20}
    multiplier = calibrate_noise(planned, unit, 1e-5, target)  # type: ignore[arg-type]
    scaled = {noised(multiplier=multiplier): 20, noised("Update.rows", multiplier, rows=30): 20}
    found = claim([scaled], unit, 1e-5).epsilon  # type: ignore[arg-type]
    assert found == pytest.approx(target, abs=1e-6)


def test_calibration_of_one_known_release_finds_noise_one() -> None:
    found = calibrate_noise({noised(): 1}, "client", 1e-5, 4.377178095681239)
    assert found == pytest.approx(1.0, abs=1e-8)


def test_calibration_keeps_the_proportions_of_the_noise() -> None:
    planned = {noised("Update.a", 1.0): 10, noised("Update.b", 3.0): 10}
    scale = calibrate_noise(planned, "client", 1e-5, 2.0)
    steps = (Step(scale, 10), Step(3 * scale, 10))
    assert tightest(steps, 1e-5) == pytest.approx(2.0, abs=1e-6)


def test_the_samples_of_dp_sgd_add_up_against_a_client_and_no_sampling_hides_it() -> None:
    booked = Mechanism("Update.weights", "dp_sgd", "row", 4.0, num_rows=2, sampling=0.01)
    fact = replace(booked, accounting="gaussian_steps")
    assert steps_for({fact: 5}, "row")[0] == (Step(4.0, 5, 0.01),)
    assert steps_for({fact: 5}, "client")[0] == (Step(2.0, 5, 1.0),)


@pytest.mark.parametrize(("rho", "count"), [(0.01, 1), (0.003, 50), (0.5, 4)])
def test_discrete_noise_costs_what_the_library_says_of_its_zcdp(rho: float, count: int) -> None:
    accountant = rdp.RdpAccountant()
    accountant.compose(dp_accounting.ZCDpEvent(rho), count)
    step = Step(1 / math.sqrt(2 * rho), count, discrete=True)
    assert tightest((step,), 1e-5) == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-9)


def test_sampled_steps_are_accounted_without_a_word_on_the_terminal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The library warns of fractional orders that do not converge, at every call."""
    assert tightest((Step(4.0, 30, 0.5),), 1e-5) > 0
    assert not caplog.records
