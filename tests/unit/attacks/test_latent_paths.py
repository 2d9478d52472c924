"""Latents of many noised rounds: what they say together, and what is left where noise hides all."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attacks.base import Noise
from attacks.latents import (
    Paths,
    _solve_normal,
    adam_steps,
    clip_factors,
    covariance_times,
    is_words,
    likeliest_latents,
    more_likely,
)
from securefg.models.user_weights import SparseFeatures, UserRows

WORDS, WIDTH, USERS, ROUNDS, RATE = 60, 8, 400, 12, 0.02
RNG = np.random.default_rng(3)
ROWS = (RNG.random((USERS, WORDS)) < 0.1).astype(np.float32)
START = RNG.standard_normal((WORDS, WIDTH)) * 0.2


def clean_paths() -> Paths:
    """By the users' own layer, for gradients that a server would send."""
    features = SparseFeatures.of(torch.from_numpy(ROWS))
    weights = torch.from_numpy(START).float()[features.columns.long()]
    users, sent = UserRows(features, weights, RATE, 0.0), []
    latents = [users.latents().double().numpy()]
    for _ in range(ROUNDS - 1):
        gradient = torch.from_numpy(RNG.standard_normal((USERS, WIDTH))).float()
        sent.append(gradient.double().numpy())
        users.step(torch.arange(USERS), gradient)
        latents.append(users.latents().double().numpy())
    moves = [np.zeros((USERS, WIDTH))]
    for step in adam_steps(sent):
        moves.append(moves[-1] - RATE * step)
    return Paths(latents, moves)


CLEAN = clean_paths()


def noised(noise: Noise) -> Paths:
    rows = [row * clip_factors(row, noise)[:, None] for row in CLEAN.uploads]
    return Paths([r + noise.sd * RNG.standard_normal(r.shape) for r in rows], CLEAN.moves)


def guess(path_view: Paths, noise: Noise) -> np.ndarray:
    rows = ROWS.astype(np.float64)
    spread = START.T @ covariance_times(rows - rows.mean(0), START, 1.0)
    mean = np.tile(rows.mean(0) @ START, (USERS, 1))
    return likeliest_latents(path_view, noise, mean, spread, rows.sum(1))


def error(found: np.ndarray) -> float:
    return float(np.square(found - CLEAN.uploads[0]).mean())


def test_a_latent_moves_by_the_sum_of_its_features_times_the_computed_path() -> None:
    size = ROWS.sum(1)[:, None]
    for latent, move in zip(CLEAN.uploads, CLEAN.moves, strict=True):
        assert np.allclose(latent, CLEAN.uploads[0] + size * move, atol=1e-4)


def test_all_rounds_say_more_than_the_first() -> None:
    noise = Noise(0.5, 1.0)
    found = noised(noise)
    alone = guess(Paths(found.uploads[:1], found.moves[:1]), noise)
    assert error(guess(found, noise)) < 0.8 * error(alone)


def test_noise_that_hides_everything_leaves_the_prior() -> None:
    noise = Noise(1e4, 1.0)
    prior = np.tile(ROWS.mean(0) @ START, (USERS, 1))
    assert np.abs(guess(noised(noise), noise) - prior).max() < 1e-2


def test_hardly_any_noise_gives_the_latent_itself() -> None:
    noise = Noise(1e-4, 100.0)
    assert error(guess(noised(noise), noise)) < 1e-6


def test_users_whose_rounds_do_not_fit_are_told_by_the_first_alone() -> None:
    noise = Noise(0.005, 100.0)
    path_view = noised(noise)
    strange = [
        path_view.moves[0],
        *(10 * RNG.standard_normal(m.shape) for m in path_view.moves[1:]),
    ]
    alone = guess(Paths(path_view.uploads[:1], path_view.moves[:1]), noise)
    moved = ROWS.sum(1) > 1  # who has no word does not move, whatever the path
    assert np.array_equal(guess(Paths(path_view.uploads, strange), noise)[moved], alone[moved])


def test_without_evidence_words_keep_the_order_of_the_prior() -> None:
    known = ROWS.astype(np.float64)
    prior = RNG.uniform(0, 1, (5, WORDS))
    found = more_likely(prior, np.zeros((5, WORDS)), known)
    assert np.array_equal(np.argsort(found, 1), np.argsort(prior, 1))
    assert is_words(known)
    assert not is_words(known - 0.5)


@pytest.mark.parametrize("value", [1.0, 0.25])
def test_evidence_for_a_word_raises_it_whatever_a_word_counts(value: float) -> None:
    known, prior = value * ROWS.astype(np.float64), np.full((1, WORDS), 0.1 * value)
    evidence = np.zeros((1, WORDS))
    evidence[0, 7] = 5.0 / value
    found = more_likely(prior, evidence, known)
    assert found.argmax() == 7
    assert found[0, 7] == pytest.approx(value, rel=0.1)


def test_known_rows_that_are_all_alike_leave_a_guess() -> None:
    """Nothing then says how users differ, and the equations are open."""
    normal = np.zeros((2, 3, 3))
    normal[:, 0, 0] = 2.0
    found = _solve_normal(normal, np.array([[4.0, 0, 0], [1.0, 0, 0]]))
    assert found[:, 0].tolist() == [2.0, 0.5]
    assert np.isfinite(found).all()
