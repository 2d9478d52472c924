"""Lower bounds on epsilon have the published values, and hold as often as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from audits.empirical_epsilon import (
    epsilon_of_mu,
    gaussian_bound,
    moments_bound,
    mu_of_epsilon,
    one_run_bound,
    one_run_p_value,
    several_trainings,
    trainings_bound,
)
from audits.metrics import BadMetricInput
from securefg.privacy.accountants import Step, exact_gaussian


@pytest.mark.parametrize(("mu", "epsilon"), [(1, 4.3772), (0.5, 1.9931), (2, 9.9973)])
def test_the_true_epsilon_of_a_gaussian(mu: float, epsilon: float) -> None:
    assert epsilon_of_mu(mu, 1e-5) == pytest.approx(epsilon, abs=5e-5)
    assert mu_of_epsilon(epsilon_of_mu(mu, 1e-5), 1e-5) == pytest.approx(mu)


def test_two_independent_routes_agree_with_the_accountant() -> None:
    for mu in (1e-3, 0.05, 0.7, 3.0, 20.0, 100.0):
        claimed = exact_gaussian((Step(1 / mu, 1),), 1e-6)
        assert epsilon_of_mu(mu, 1e-6) == pytest.approx(claimed, abs=1e-9)


def expected(mu: float, each: int) -> tuple[int, int, int, int]:
    errors = round(each * norm.sf(mu / 2))
    return errors, each, errors, each


@pytest.mark.parametrize(
    ("mu", "each", "epsilon", "digits"),
    [
        (1, 1000, 3.54, 2),
        (1, 10_000, 4.118, 3),
        (1, 100_000, 4.295, 3),
        (0.5, 10_000, 1.772, 3),
        (2, 10_000, 9.630, 3),
    ],
)
def test_gaussian_bounds_have_the_expected_values(
    mu: float, each: int, epsilon: float, digits: int
) -> None:
    found = gaussian_bound(*expected(mu, each), delta=1e-5)
    assert found.gdp.epsilon == pytest.approx(epsilon, abs=0.5 * 10**-digits)
    assert found.cp.epsilon <= found.gdp.epsilon <= found.gdp.ceiling
    assert found.cp.epsilon <= found.cp.ceiling


def test_no_bound_is_above_the_ceiling_and_perfection_reaches_it() -> None:
    perfect = gaussian_bound(0, 500, 0, 500, 1e-5)
    assert perfect.gdp.epsilon == perfect.gdp.ceiling
    assert perfect.cp.epsilon == perfect.cp.ceiling
    assert gaussian_bound(0, 5000, 0, 5000, 1e-5).gdp.ceiling > perfect.gdp.ceiling
    assert gaussian_bound(500, 500, 0, 500, 1e-5).gdp.epsilon == 0
    assert gaussian_bound(0, 500, 500, 500, 1e-5).cp.epsilon == 0


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
def test_the_gaussian_bound_is_below_the_truth_as_often_as_it_says(mu: float) -> None:
    rng = np.random.default_rng(0)
    rate, each, true = norm.sf(mu / 2), 2000, epsilon_of_mu(mu, 1e-5)
    above = 0
    for _ in range(300):
        fp, fn = rng.binomial(each, rate, 2)
        above += gaussian_bound(int(fp), each, int(fn), each, 1e-5).gdp.epsilon > true
    assert above <= 300 * 0.05


# ----------------------------------------------------------------------------------------- one run


@pytest.mark.parametrize(
    ("canaries", "guesses", "right", "delta", "epsilon"),
    [
        (100, 100, 75, 0, 0.702),
        (100, 100, 75, 1e-4, 0.699),
        (1000, 100, 75, 1e-4, 0.673),
        (100_000, 1510, 1439, 1e-5, 2.676),
        (10_000, 10_000, 9820, 1e-5, 3.871),
    ],
)
def test_one_run_has_the_published_values(
    canaries: int, guesses: int, right: int, delta: float, epsilon: float
) -> None:
    found = one_run_bound(canaries, guesses, right, delta)
    assert found.epsilon == pytest.approx(epsilon, abs=5e-4)
    assert found.epsilon <= found.ceiling


def test_the_papers_own_example_is_at_least_what_it_prints() -> None:
    """The paper says 2.675; the bound is 2.6759, and a lower bound is cut, not rounded up."""
    assert 2.675 <= one_run_bound(100_000, 1510, 1439, 1e-5).epsilon < 2.676


def test_one_run_p_value_at_log_three() -> None:
    assert one_run_p_value(100, 100, 75, 0, math.log(3)) == pytest.approx(0.553, abs=5e-4)


@pytest.mark.parametrize(
    ("canaries", "ceiling"), [(16, 1.580), (100, 3.490), (500, 5.101), (1000, 5.782)]
)
def test_one_run_ceilings(canaries: int, ceiling: float) -> None:
    found = one_run_bound(canaries, canaries, canaries, 1e-5)
    assert found.epsilon == found.ceiling == pytest.approx(ceiling, abs=5e-4)
    assert one_run_bound(canaries, 0, 0, 1e-5).ceiling == found.ceiling


def test_no_guess_and_no_right_guess_show_nothing() -> None:
    assert one_run_bound(100, 0, 0, 1e-5).epsilon == 0
    assert one_run_bound(100, 50, 0, 1e-5).epsilon == 0
    assert one_run_bound(100, 100, 50, 1e-5).epsilon == 0


def test_one_run_is_below_the_truth_for_randomised_response() -> None:
    """Every guess is right with probability expit(eps): the hardest case that eps allows."""
    epsilon, rng = 1.5, np.random.default_rng(1)
    rights = rng.binomial(200, 1 / (1 + math.exp(-epsilon)), 400)
    bounds = {v: one_run_bound(200, 200, v, 0.0).epsilon for v in set(rights.tolist())}
    above = sum(bounds[v] > epsilon for v in rights.tolist())
    assert above <= 400 * 0.05 + 3 * math.sqrt(400 * 0.05 * 0.95)


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(BadMetricInput, match="76 right of 75 guesses"):
        one_run_bound(100, 75, 76, 0)
    with pytest.raises(BadMetricInput, match="101 guesses about 100 canaries"):
        one_run_bound(100, 101, 10, 0)
    with pytest.raises(BadMetricInput, match="delta: found 5"):
        one_run_bound(100, 100, 10, 5)


# ------------------------------------------------------------------------------- several trainings


@pytest.mark.parametrize(
    ("true_positives", "false_positives", "epsilon"),
    [(900, 50, 2.599), (690, 310, 0.665), (500, 500, 0)],
)
def test_several_trainings_have_the_expected_values(
    true_positives: int, false_positives: int, epsilon: float
) -> None:
    found = trainings_bound(true_positives, 1000, false_positives, 1000, 1e-5)
    assert found.epsilon == pytest.approx(epsilon, abs=5e-4)
    assert found.epsilon < found.ceiling


def test_the_threshold_is_chosen_on_trainings_that_are_not_counted() -> None:
    rng = np.random.default_rng(2)
    found = several_trainings(rng.normal(3, 1, 2000), rng.normal(0, 1, 2000), 1e-5)
    assert found.trials == 2000
    assert 2.0 < found.epsilon < epsilon_of_mu(3, 1e-5)


def test_scores_that_know_nothing_show_nothing() -> None:
    """Choosing and counting on the same trainings would show something far too often."""
    shown = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        shown += several_trainings(rng.normal(size=60), rng.normal(size=60), 1e-5).epsilon > 0
    assert shown <= 10


def test_a_handful_of_trainings_is_refused() -> None:
    with pytest.raises(BadMetricInput, match="3 trainings with the canary"):
        several_trainings([1, 2, 3], [1, 2, 3, 4], 1e-5)


# ------------------------------------------------------------------------------------- moments


def _pair(mu: float, each: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=each) + mu, rng.normal(size=each)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("mu", [0.1, 0.5, 2.0])
def test_moments_bound_covers_the_truth_as_often_as_it_says(mu: float, known: bool) -> None:
    above = 0
    for seed in range(400):
        found, _ = moments_bound(*_pair(mu, 300, seed), 1e-5, 0.95, mu if known else None)
        above += found > mu
    assert above <= binom.ppf(0.999, 400, 0.05)


@pytest.mark.parametrize("seed", range(3))
def test_moments_bound_of_a_known_value_shows_most_of_epsilon(seed: int) -> None:
    """Epsilon .75 at 5 000 trials: at least .6, where the errors of a threshold show .3."""
    mu = mu_of_epsilon(0.75, 8e-5)
    scores = _pair(mu, 2500, seed)
    _, known = moments_bound(*scores, 8e-5, 0.95, mu)
    _, pair = moments_bound(*scores, 8e-5, 0.95)
    assert (known.estimator, pair.estimator) == ("known_value", "gauss_pair")
    assert 0.7 < known.epsilon <= 0.75
    assert pair.epsilon < known.epsilon


def test_moments_bound_gives_up_a_known_value_that_scores_contradict() -> None:
    """A mechanism that sends half of the canary is not held to all of it."""
    _, found = moments_bound(*_pair(0.5, 2000, 0), 1e-5, 0.95, 1.0)
    assert found.estimator == "gauss_pair"
    assert found.epsilon < epsilon_of_mu(0.5, 1e-5)


@pytest.mark.parametrize("pairs", [40, pytest.param(300, marks=pytest.mark.slow)])
def test_bounds_of_null_scores_are_zero_in_both_directions(pairs: int) -> None:
    """Scores that tell nothing show an epsilon above 0 as often as the confidence allows."""
    shown = {"moments": 0, "moments turned": 0, "trainings": 0, "trainings turned": 0}
    for seed in range(pairs):
        first_scores, other = _pair(0.0, 250, seed)
        shown["moments"] += moments_bound(first_scores, other, 1e-5)[1].epsilon > 0
        shown["moments turned"] += moments_bound(other, first_scores, 1e-5)[1].epsilon > 0
        shown["trainings"] += several_trainings(first_scores, other, 1e-5).epsilon > 0
        shown["trainings turned"] += several_trainings(other, first_scores, 1e-5).epsilon > 0
    assert max(shown.values()) <= binom.ppf(0.999, pairs, 0.05)
