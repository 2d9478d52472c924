"""Empirical epsilon: how much privacy loss a game has shown, as a lower bound with a confidence.

(i)   `gaussian_bound`       noisy uploads of a canary: errors of a threshold fixed beforehand
      `moments_bound`        the same uploads by their means and their spread, which shows more
(ii)  `one_run_bound`        one training with many canaries (Steinke, Nasr and Jagielski 2023)
(iii) `several_trainings`    scores over many trainings: threshold on one half, errors on the other

Every bound says the largest epsilon that its sample size could have shown (`ceiling`): where that
is below the claim, the audit could not have found a violation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_ndtr, ndtr, ndtri

from audits.laws import binomial_at_least, chi2_quantile
from audits.metrics import (
    BadMetricInput,
    Floats,
    checked_scores,
    checked_share,
    clopper_pearson_upper,
)
from securefg.foundation.roots import root_between

Estimator = Literal[
    "gdp", "cp", "gauss_pair", "known_value", "one_run", "one_run_gdp", "several_trainings"
]
LARGEST_MU = 1e3
"""No bound from moments shows more: noise without any spread would show infinity."""
CONTRADICTION = 4.5
"""A difference that falls short of the known shift by so many of its deviations contradicts it."""


@dataclass(frozen=True)
class EpsilonBound:
    """A lower bound: epsilon >= `epsilon` at `delta`, with `confidence`, measured over `trials`."""

    epsilon: float
    delta: float
    confidence: float
    estimator: Estimator
    ceiling: float
    trials: int


@dataclass(frozen=True)
class GaussianBound:
    """A pair of bounds from one game. `gdp` is valid for a Gaussian trade-off, and `cp` assumes
    nothing. `mu` is the distance that `gdp` follows from."""

    mu: float
    gdp: EpsilonBound
    cp: EpsilonBound


# ------------------------------------------------------------------------------ (i) noisy uploads


def gaussian_log_delta(epsilon: float, mu: float) -> float:
    """Return the logarithm of delta(eps) = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)."""
    first = float(log_ndtr(-epsilon / mu + mu / 2))
    second = epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
    return first + math.log(-math.expm1(min(second - first, -1e-300)))


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Return the epsilon of a Gaussian release whose means lie mu standard deviations apart.

    The function is written apart from the accountants on purpose: an audit does not trust what it
    audits.
    """
    target = math.log(checked_share(delta, "delta"))
    if mu < 0 or not math.isfinite(mu):
        raise BadMetricInput(f"mu: found {mu!r}, wanted 0 or more")
    if mu == 0 or gaussian_log_delta(0.0, mu) <= target:
        return 0.0
    high = mu * mu / 2 + mu * math.sqrt(-2 * target)
    return root_between(lambda eps: gaussian_log_delta(eps, mu) - target, 0.0, high, xtol=1e-12)


def mu_of_epsilon(epsilon: float, delta: float) -> float:
    """Return the mu of an epsilon, the inverse of `epsilon_of_mu`."""
    if not 0 < epsilon < math.inf:
        raise BadMetricInput(f"epsilon: found {epsilon!r}, wanted a positive number")
    high = 1.0
    while epsilon_of_mu(high, delta) < epsilon:
        high *= 2
    return root_between(lambda mu: epsilon_of_mu(mu, delta) - epsilon, 1e-12, high, xtol=1e-12)


def gaussian_bound(
    false_positives: int,
    negatives: int,
    false_negatives: int,
    positives: int,
    delta: float,
    confidence: float = 0.95,
) -> GaussianBound:
    """Return the bounds that follow from the errors of a threshold that was fixed before the game.

    u_fp and u_fn are Clopper-Pearson upper ends at alpha / 2 each, so both hold at once:

        mu_lb  = max(0, isf(u_fp) - ppf(u_fn))
        eps_cp = max(0, log(1 - u_fn - delta) - log u_fp)
    """
    alpha = (1 - checked_share(confidence, "confidence")) / 2
    u_fp = clopper_pearson_upper(false_positives, negatives, alpha)
    u_fn = clopper_pearson_upper(false_negatives, positives, alpha)
    best = (clopper_pearson_upper(0, negatives, alpha), clopper_pearson_upper(0, positives, alpha))
    mu, trials = _mu_of_errors(u_fp, u_fn), negatives + positives
    gdp = EpsilonBound(
        epsilon_of_mu(mu, delta),
        delta,
        confidence,
        "gdp",
        epsilon_of_mu(_mu_of_errors(*best), delta),
        trials,
    )
    cp = EpsilonBound(
        _epsilon_of_errors(u_fp, u_fn, delta),
        delta,
        confidence,
        "cp",
        _epsilon_of_errors(*best, delta),
        trials,
    )
    return GaussianBound(mu, gdp, cp)


def moments_bound(
    inside: ArrayLike,
    outside: ArrayLike,
    delta: float,
    confidence: float = 0.95,
    known_shift: float | None = None,
) -> tuple[float, EpsilonBound]:
    """Return mu and epsilon of two Gaussians of one spread, from scores with and without the
    canary.

    With sigma <= s, the chi-square upper end at alpha / 2, and the difference of the means within z
    sigma sqrt(1/n + 1/m) of the true one at alpha / 2:

        gauss_pair    mu >= |difference| / s - z sqrt(1/n + 1/m)
        known_value   mu >= known_shift / s, unless the difference contradicts the known shift

    Both follow from the same two events, so the larger bound holds with the confidence. The second
    is for an auditor who knows what the canary adds to a score before the noise: a mechanism that
    shrinks values, by too little to be seen, is held to the shift that it should have.
    """
    inside_scores, other = checked_scores(inside), checked_scores(outside)
    n, m = inside_scores.size, other.size
    if min(n, m) < 4:
        raise BadMetricInput(f"scores: found {n} and {m}; expected 4 of each or more")
    half = (1 - checked_share(confidence, "confidence")) / 2
    squares = float(
        np.square(inside_scores - inside_scores.mean()).sum()
        + np.square(other - other.mean()).sum()
    )
    upper = math.sqrt(squares / chi2_quantile(half, n + m - 2))
    difference = float(inside_scores.mean() - other.mean())
    root = math.sqrt(1 / n + 1 / m)
    reach = -float(ndtri(half / 2)) * root
    # Scores are float64 sums of uploads: a spread this small is rounding, not noise.
    least = max(abs(difference), abs(known_shift or 0.0), 1e-300) / LARGEST_MU
    upper = max(upper, least)
    mu_estimates: list[tuple[float, Estimator]] = [
        (max(0.0, abs(difference) / upper - reach), "gauss_pair")
    ]
    if (
        known_shift is not None
        and abs(known_shift) - abs(difference) <= CONTRADICTION * root * upper
    ):
        mu_estimates.append((abs(known_shift) / upper, "known_value"))
    mu, estimator = max(mu_estimates)
    ceiling = epsilon_of_mu(LARGEST_MU, delta)
    bound = EpsilonBound(epsilon_of_mu(mu, delta), delta, confidence, estimator, ceiling, n + m)
    return mu, bound


def _mu_of_errors(u_fp: float, u_fn: float) -> float:
    if max(u_fp, u_fn) >= 1:
        return 0.0
    return max(0.0, -float(ndtri(u_fp)) - float(ndtri(u_fn)))


def _epsilon_of_errors(u_fp: float, u_fn: float, delta: float) -> float:
    """Return the largest epsilon that the errors refute. (eps, delta) forbids 1 - fn > e^eps fp +
    delta."""
    caught = 1 - u_fn - checked_share(delta, "delta")
    return max(0.0, math.log(caught) - math.log(u_fp)) if caught > 0 else 0.0


# ------------------------------------------------------------------------------------ (ii) one run


def one_run_bound(
    canaries: int, guesses: int, right: int, delta: float, confidence: float = 0.95
) -> EpsilonBound:
    """Return the largest epsilon refuted by `right` of `guesses` about m canaries, each in by a
    fair coin.

    The numbers of guesses (k+ and k-) must be fixed before the run. delta may be 0. See Steinke,
    Nasr and Jagielski 2023.
    """
    _check_one_run(canaries, guesses, right, delta)
    alpha = 1 - checked_share(confidence, "confidence")
    epsilon = _refuted_epsilon(canaries, guesses, right, delta, alpha)
    ceiling = _refuted_epsilon(canaries, canaries, canaries, delta, alpha)
    return EpsilonBound(epsilon, delta, confidence, "one_run", ceiling, canaries)


def one_run_gdp_bound(
    canaries: int, guesses: int, right: int, delta: float, confidence: float = 0.95
) -> EpsilonBound:
    """Return the bound of `one_run_bound` for a Gaussian trade-off, which is refuted more sharply
    (Mahloujifar, Melis and Chaudhuri 2024, "Auditing f-differential privacy in one run")."""
    _check_one_run(canaries, guesses, right, delta)
    alpha = 1 - checked_share(confidence, "confidence")
    return EpsilonBound(
        epsilon_of_mu(_refuted_mu(canaries, guesses, right, alpha), delta),
        delta,
        confidence,
        "one_run_gdp",
        epsilon_of_mu(_refuted_mu(canaries, canaries, canaries, alpha), delta),
        canaries,
    )


def _refuted_mu(canaries: int, guesses: int, right: int, alpha: float) -> float:
    """Return the largest mu that is refuted, by bisection, or 0 if none is."""
    low, high = 0.0, 16.0
    for _ in range(30):
        middle = (low + high) / 2
        refuted = _gaussian_is_refuted(middle, canaries, guesses, right, alpha)
        low, high = (middle, high) if refuted else (low, middle)
    return low


def _gaussian_is_refuted(mu: float, canaries: int, guesses: int, right: int, alpha: float) -> bool:
    """Return whether mu-GDP is refuted.

    Under mu-GDP the chances r_i, h_i of more right and more wrong guesses, followed down from the
    observed number, would add up to no more than the share of guesses.
    """
    if right == 0:
        return False
    share = guesses / canaries
    r, h = alpha * share * right / guesses, alpha * share * (guesses - right) / guesses
    for i in range(right - 1, -1, -1):
        following = max(h, float(ndtr(ndtri(r) - mu)))
        r, h = r + i / (guesses - i) * (following - h), following
        if r + h > share:
            return True
    return False


def one_run_p_value(canaries: int, guesses: int, right: int, delta: float, epsilon: float) -> float:
    """Return an upper bound on the chance of so many right guesses under (epsilon, delta).

    q = expit(eps), b = P[Bin(r, q) >= v],
    p = min(1, b + 2 m delta max_{i = 1..v} (P[Bin(r, q) >= v - i] - b) / i)
    """
    _check_one_run(canaries, guesses, right, delta)
    if guesses == 0 or right == 0:
        return 1.0
    q = float(expit(epsilon))
    b = float(binomial_at_least(right, guesses, q))
    i = np.arange(1, right + 1)
    slack = float(np.max((binomial_at_least(right - i, guesses, q) - b) / i))
    return min(1.0, b + 2 * canaries * delta * max(0.0, slack))


def _refuted_epsilon(canaries: int, guesses: int, right: int, delta: float, alpha: float) -> float:
    def excess(epsilon: float) -> float:
        return one_run_p_value(canaries, guesses, right, delta, epsilon) - alpha

    if excess(0.0) >= 0:
        return 0.0
    high = 1.0
    while excess(high) < 0:
        high *= 2
    return root_between(excess, 0.0, high, xtol=1e-9)


def _check_one_run(canaries: int, guesses: int, right: int, delta: float) -> None:
    if not 0 <= right <= guesses <= canaries or canaries < 1:
        raise BadMetricInput(
            f"{right} right of {guesses} guesses about {canaries} canaries; wanted right <= "
            "guesses <= canaries"
        )
    if not 0 <= delta < 1:
        raise BadMetricInput(f"delta: found {delta!r}, wanted 0 <= delta < 1")


# ------------------------------------------------------------------------- (iii) several trainings


def several_trainings(
    scores_in: ArrayLike, scores_out: ArrayLike, delta: float, confidence: float = 0.95
) -> EpsilonBound:
    """Return the bound from a canary's scores over trainings with it and without it, in order of
    making.

    Every second training chooses the threshold with the largest bound, and the others are counted.
    The threshold is thus fixed before the trainings that it is scored on.
    """
    inside, outside = checked_scores(scores_in), checked_scores(scores_out)
    if min(inside.size, outside.size) < 4:
        raise BadMetricInput(
            f"{inside.size} trainings with the canary and {outside.size} without; wanted 4 of each"
        )
    threshold = _best_threshold(inside[::2], outside[::2], delta, confidence)
    kept_in, kept_out = inside[1::2], outside[1::2]
    return trainings_bound(
        int((kept_in >= threshold).sum()),
        kept_in.size,
        int((kept_out >= threshold).sum()),
        kept_out.size,
        delta,
        confidence,
    )


def trainings_bound(
    true_positives: int,
    positives: int,
    false_positives: int,
    negatives: int,
    delta: float,
    confidence: float = 0.95,
) -> EpsilonBound:
    """Return log((1 - u_fn - delta) / u_fp), if the threshold was fixed before these trainings."""
    threshold_bound = gaussian_bound(
        false_positives, negatives, positives - true_positives, positives, delta, confidence
    ).cp
    return EpsilonBound(
        threshold_bound.epsilon,
        delta,
        confidence,
        "several_trainings",
        threshold_bound.ceiling,
        threshold_bound.trials,
    )


def _best_threshold(inside: Floats, outside: Floats, delta: float, confidence: float) -> float:
    candidates = np.unique(np.concatenate([inside, outside]))
    if candidates.size > 256:
        candidates = np.quantile(candidates, np.linspace(0, 1, 256))

    def bound(threshold: float) -> float:
        caught, false = int((inside >= threshold).sum()), int((outside >= threshold).sum())
        return trainings_bound(caught, inside.size, false, outside.size, delta, confidence).epsilon

    return float(max(candidates.tolist(), key=bound))
