"""Evidence beside a prior: noise that hides everything leaves the prior, and none costs it much."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from attacks.base import Noise
from attacks.decoders import (
    TRACE,
    fitted_share,
    helpful_share,
    mean_likeness,
    ridge_decoded,
    taught_network,
)
from attacks.evidence import (
    PLENTY,
    SURE,
    evidence_weight,
    largest_shift,
    lean_evidence,
    normal_scores,
    pair_shift,
)
from attacks.features import decoded_neighbourhoods
from attacks.gradient_matching import hides_change
from attacks.latents import clip_factors
from attacks.links import whiten_rows
from attacks.samples import above_noise, fill_guesses
from audits.metrics import area_under_curve

RNG = np.random.default_rng(0)
SO = np.arange(4000) % 2
PRIOR = 0.8 * SO + RNG.standard_normal(4000)
WORTHLESS = RNG.standard_normal(4000)
STRONG = 3.0 * SO + RNG.standard_normal(4000)


def test_without_a_prior_evidence_is_all_there_is() -> None:
    assert lean_evidence(STRONG, None, 0.0) is STRONG


def test_without_noise_evidence_decides() -> None:
    assert largest_shift(None, 1.0) == pair_shift(None, 3, 2) == math.inf
    assert area_under_curve(SO, lean_evidence(STRONG, PRIOR)) > area_under_curve(SO, STRONG) - 0.002


@pytest.mark.parametrize("shift", [0.0, 1e-3, 0.1, 1.0, 5.0, 0.3 * PLENTY])
def test_worthless_evidence_costs_the_prior_next_to_nothing(shift: float) -> None:
    assert (
        area_under_curve(SO, lean_evidence(WORTHLESS, PRIOR, shift))
        > area_under_curve(SO, PRIOR) - 0.015
    )


@pytest.mark.parametrize("shift", [0.25, 1.0, 10.0, 10 * PLENTY])
def test_strong_evidence_shows_under_noise_that_may_hide_it(shift: float) -> None:
    assert (
        area_under_curve(SO, lean_evidence(STRONG, PRIOR, shift))
        > area_under_curve(SO, PRIOR) + 0.08
    )


def test_more_noise_never_makes_evidence_count_more() -> None:
    weights = [evidence_weight(shift) for shift in np.geomspace(1e-4, 1e6, 60)]
    assert weights == sorted(weights)
    assert weights[-1] == evidence_weight(math.inf) == SURE
    assert weights[0] < 1e-3


def test_shifts_fall_with_noise_and_grow_with_releases() -> None:
    loud, quiet = Noise(2.0, 1.0), Noise(0.5, 1.0)
    assert largest_shift(loud, 1.0, 4) == pytest.approx(1.0)
    assert largest_shift(loud, 0.5, 4) < largest_shift(quiet, 0.5, 4)
    assert pair_shift(loud, 16, 5) < pair_shift(quiet, 16, 5) < pair_shift(quiet, 16, 50)
    assert quiet.of_sum(4).sd == 0.25


def test_scores_that_are_all_alike_say_nothing() -> None:
    assert not normal_scores(np.ones(5)).any()


def test_a_decoder_of_noise_says_the_mean_of_the_known_features() -> None:
    features = (RNG.random((200, 50)) < 0.2).astype(float)
    mixing = RNG.standard_normal((50, 60))
    seen = features @ mixing
    found = ridge_decoded(seen[:150], features[:150], seen[150:])
    assert np.abs(found - features[150:]).mean() < 0.05
    noise = RNG.standard_normal((200, 60))
    blind = ridge_decoded(noise[:150], features[:150], noise[150:])
    assert np.abs(blind - features[:150].mean(0)).max() < 0.01


def test_a_network_is_trusted_as_far_as_it_fits_nodes_that_did_not_teach_it() -> None:
    rows = RNG.standard_normal((300, 4))
    places = np.maximum(rows @ RNG.standard_normal((4, 3)), 0)
    places -= places.mean(0)
    stream = torch.Generator().manual_seed(0)
    said = taught_network(rows[:200], places[:200], rows[200:], stream)
    assert fitted_share(said, places[200:]) > 0.7
    assert fitted_share(RNG.standard_normal((100, 3)), places[200:]) < 0.2


def test_words_around_a_node_fall_back_to_the_prior() -> None:
    design, prior = RNG.standard_normal((30, 12)), np.tile(RNG.random(12), (5, 1))
    rows = (RNG.random((5, 12)) < 0.3) @ design.T
    assert np.abs(decoded_neighbourhoods(design, rows, prior, 1e4) - prior).max() < 1e-4
    assert np.abs(decoded_neighbourhoods(design, rows, prior, 1e-3) @ design.T - rows).max() < 0.01


def test_directions_that_noise_alone_would_have_do_not_count() -> None:
    noise = RNG.standard_normal((400, 20))
    signal = 10 * np.outer(RNG.standard_normal(400), np.eye(20)[3])
    kept = np.abs(whiten_rows(noise + signal, 1.0)).sum(0) > 0
    assert kept.tolist() == [True] + 19 * [False]
    assert (np.abs(whiten_rows(noise + signal)).sum(0) > 0).all()


def test_a_jacobian_of_noise_is_hardly_trusted() -> None:
    noise = RNG.standard_normal((16, 100))
    assert above_noise(noise, 1.0) < 0.1
    assert above_noise(noise + 100 * np.outer(np.ones(16), np.ones(100)), 1.0) > 0.95


def test_the_priors_samples_stay_where_guesses_are_noise_or_mixtures() -> None:
    guess, prior = np.zeros((4, 3)), RNG.random((4, 3)) + 1
    guess[:2] = RNG.random((2, 3))
    assert np.array_equal(fill_guesses(guess, prior, mixed=True)[:-1], prior[:-1])
    assert np.array_equal(fill_guesses(guess, prior, mixed=False)[:-1], prior[:-1])
    one = fill_guesses(guess * (np.arange(4) == 0)[:, None], prior, mixed=False)
    assert np.array_equal(one, np.concatenate([guess[:1], prior[:3]]))


def test_latents_are_clipped_as_the_policy_says() -> None:
    rows = np.array([[3.0, 4.0], [0.3, 0.4]])
    assert clip_factors(rows, Noise(1.0, 1.0)).tolist() == pytest.approx([0.2, 1.0])
    assert clip_factors(rows, None).tolist() == [1.0, 1.0]


def test_no_search_is_made_where_noise_is_longer_than_any_change() -> None:
    assert hides_change(Noise(1.0, 1.0), 100)
    assert not hides_change(Noise(0.01, 1.0), 100)


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_a_decoder_that_makes_the_prior_worse_is_not_trusted(shift: float) -> None:
    truth = (RNG.random((80, 60)) < 0.1) - shift
    prior = truth + RNG.standard_normal(truth.shape)
    worse, better = RNG.standard_normal(truth.shape), truth - prior
    assert helpful_share(1.0, worse, prior, truth) == TRACE
    assert helpful_share(1.0, better, prior, truth) == 1.0
    assert mean_likeness(truth, truth) == pytest.approx(1.0)
