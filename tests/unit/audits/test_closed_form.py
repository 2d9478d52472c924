"""Gains by closed form agree with fresh draws of the noise, and stay within what a claim bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from audits.closed_form import (
    ClosedForm,
    SumNoise,
    bound_of_claim,
    gain_of_distance,
    label_form,
    membership_form,
)
from audits.findings.record import Verdict
from audits.metrics import area_under_curve
from audits.verdicts import judge_computed
from securefg.foundation.interval import Interval
from securefg.privacy.discrete_gaussian import sample

DELTA = 8e-5


@pytest.mark.parametrize(("epsilon", "wanted"), [(0.75, 0.061), (1.0, 0.079), (2.0, 0.144)])
def test_bound_of_claim_has_the_published_values(epsilon: float, wanted: float) -> None:
    found = bound_of_claim(epsilon, DELTA, discrete=True)
    assert found == pytest.approx(wanted, abs=5e-4)
    assert found < bound_of_claim(epsilon, DELTA)


def test_bound_of_claim_of_a_replacement_is_at_twice_the_distance() -> None:
    once, twice = bound_of_claim(0.75, DELTA), bound_of_claim(0.75, DELTA, steps=2)
    assert once < twice < 2 * once
    assert bound_of_claim(0.0, DELTA) == 0


def test_membership_form_agrees_with_fresh_draws_of_gaussian_noise() -> None:
    """For every target, scores with it and without it, each under noise of its own."""
    rng = np.random.default_rng(0)
    moves, noise, draws = 0.3 * rng.standard_normal((20, 8)), SumNoise(1.5), 20_000
    form = membership_form([noise], [moves], "computed")
    so, mean_gains = np.repeat([1, 0], draws), []
    for move in moves:
        seen = noise.sd * rng.standard_normal((2 * draws, 8)) + so[:, None] * move
        mean_gains.append(area_under_curve(so, seen @ move) - 0.5)
    error = 4 * math.sqrt(1 / (6 * draws) / len(moves))
    assert form.gain.value == pytest.approx(float(np.mean(mean_gains)), abs=error)
    assert form.most == pytest.approx(max(mean_gains), abs=4 * math.sqrt(1 / (6 * draws)))


def test_membership_form_of_two_sums_reads_them_together() -> None:
    first, second = np.full((3, 1), 3.0), np.full((3, 1), 8.0)
    both = membership_form([SumNoise(1.0), SumNoise(2.0)], [first, second], "computed")
    assert both.gain.value == pytest.approx(float(ndtr(5 / math.sqrt(2))) - 0.5)


def test_membership_form_bounds_discrete_noise_after_rounding() -> None:
    """Values on a grid, rounded at random, with the noise of four clients: exact likelihoods."""
    rng, draws, count = np.random.default_rng(1), 200_000, 4
    move, single = 2.6, 3.0
    noise = SumNoise(single * math.sqrt(count), count, step=1.0)
    form = membership_form([noise], [np.array([[move], [move]])], "computed")
    seen = []
    for inside in (1, 0):
        value = np.floor(0.37 + inside * move + rng.random(draws))
        bits = rng.bytes(1 << 23)
        place = [0]

        def read(size: int, bits: bytes = bits, place: list[int] = place) -> bytes:
            place[0] += size
            return bits[place[0] - size : place[0]]

        seen.append(value + sample(single, (count, draws), read).sum(0))
    drawn_gain = area_under_curve(np.repeat([1, 0], draws), np.concatenate(seen)) - 0.5
    error = 4 * math.sqrt(1 / (6 * draws))
    assert drawn_gain <= form.gain.high + error
    assert form.gain.value <= form.gain.high
    assert form.gain.value == pytest.approx(drawn_gain, abs=0.01)


def test_sum_noise_fine_grid_costs_nearly_nothing() -> None:
    fine, coarse = SumNoise(1.0, 50, step=1e-4), SumNoise(1.0, 50, step=0.05)
    assert fine.rounding_gap(10_000) < 1e-6
    moves = np.full((2, 4), 0.1)
    for noise, slack in ((fine, 1.01), (coarse, 1.6)):
        exact, most = noise.move_distances(moves)
        assert (exact < most).all()
        assert (most < slack * exact).all()


def test_sum_noise_distance_counts_only_numbers_that_move() -> None:
    wide = np.zeros((1, 1000))
    wide[0, 0] = 1.0
    _, most = SumNoise(10.0, 5, step=1.0).move_distances(wide)
    assert most[0] == pytest.approx(0.2, rel=1e-3)


@pytest.mark.parametrize("share", [0.5, 0.7])
def test_label_form_of_two_labels_is_the_bayes_accuracy(share: float) -> None:
    rng = np.random.default_rng(2)
    moves, prior = rng.standard_normal((50, 2, 3)), np.array([share, 1 - share])
    form = label_form(SumNoise(2.0), moves, prior, rng)
    apart = np.linalg.norm(moves[:, 0] - moves[:, 1], axis=1) / 2.0
    odds = math.log(share / (1 - share)) / apart
    right = share * ndtr(apart / 2 + odds) + (1 - share) * ndtr(apart / 2 - odds)
    assert form.gain.value == pytest.approx(float((right - share).mean()), abs=2e-3)


def test_label_form_agrees_with_fresh_draws_for_many_labels() -> None:
    rng, draws = np.random.default_rng(3), 4000
    moves, prior = 1.5 * rng.standard_normal((10, 5, 4)), np.array([0.4, 0.3, 0.1, 0.1, 0.1])
    form = label_form(SumNoise(2.0), moves, prior, rng)
    drawn_gains = []
    for points in moves:
        labels = rng.choice(5, size=draws, p=prior)
        seen = points[labels] + 2.0 * rng.standard_normal((draws, 4))
        logs = -((seen[:, None] - points) ** 2).sum(-1) / 8 + np.log(prior)
        drawn_gains.append(float((logs.argmax(1) == labels).mean()) - prior.max())
    assert form.gain.value == pytest.approx(
        float(np.mean(drawn_gains)), abs=4 * 0.5 / math.sqrt(40_000)
    )
    assert form.most >= form.gain.value


def test_label_form_without_moves_gains_nothing() -> None:
    form = label_form(
        SumNoise(1.0), np.zeros((4, 3, 2)), np.full(3, 1 / 3), np.random.default_rng(0)
    )
    assert form.gain.value == pytest.approx(0.0, abs=1e-12)


def test_gain_never_exceeds_the_bound_of_a_right_claim() -> None:
    """Whoever moves the sum by less than the sensitivity gains less than the claim allows."""
    sd = 1 / 0.2171  # the Gaussian mechanism of epsilon 0.75 at DELTA, for sensitivity 1
    largest = gain_of_distance(np.array([1 / sd]))[0]
    assert largest <= bound_of_claim(0.75, DELTA)
    moves = np.random.default_rng(0).standard_normal((100, 6))
    moves /= np.linalg.norm(moves, axis=1, keepdims=True).clip(1)
    form = membership_form([SumNoise(sd)], [moves], "computed")
    assert form.gain.value <= form.most <= bound_of_claim(0.75, DELTA) + 1e-9


def test_ten_unprotected_people_of_a_thousand_are_a_leak() -> None:
    """They change the mean by 0.005 only."""
    moves = np.full((1000, 1), 0.01)
    protected = membership_form([SumNoise(1.0)], [moves], "computed")
    moves[:10] = 100.0
    exposed = membership_form([SumNoise(1.0)], [moves], "computed")
    assert exposed.gain.value - protected.gain.value == pytest.approx(0.005, abs=1e-4)
    assert judge_computed(protected, 0.05)[0] is Verdict.TRACE
    verdict, because = judge_computed(exposed, 0.05)
    assert verdict is Verdict.LEAK
    assert "most exposed" in because


@pytest.mark.parametrize(
    ("gain", "most", "wanted"), [(0.01, 0.04, "TRACE"), (0.01, 0.05, "LEAK"), (0.06, 0.06, "LEAK")]
)
def test_judge_computed_holds_mean_and_most_exposed_to_the_smallest_gain(
    gain: float, most: float, wanted: str
) -> None:
    form = ClosedForm(Interval(value=gain, low=gain, high=gain), most, "computed")
    assert judge_computed(form, 0.05)[0] == wanted
