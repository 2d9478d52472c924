"""How many words a user has, from its latents' drift: exact, and under clip and noise."""

from __future__ import annotations

import numpy as np
import pytest

from attacks.base import Array, Noise
from attacks.latents import Paths, by_least_squares, by_likelihood

CLIP, WIDTH, ROUNDS, USERS = 1.0, 16, 8, 400


def drawn(sd: float, clip: float, length: float = 0.3) -> tuple[Paths, Array]:
    """Latents that begin at `length` and move by 0.1 per word and round, as Adam moves them."""
    rng = np.random.default_rng(3)
    words = rng.integers(5, 30, USERS).astype(float)
    start = rng.standard_normal((USERS, WIDTH))
    start *= length / np.linalg.norm(start, axis=1, keepdims=True)
    steps = 0.1 * np.sign(rng.standard_normal((ROUNDS - 1, USERS, WIDTH)))
    moves = [np.zeros((USERS, WIDTH)), *np.cumsum(steps, axis=0)]
    uploads = []
    for move in moves:
        latent = start + words[:, None] * move
        size = np.linalg.norm(latent, axis=1, keepdims=True)
        kept = latent * np.minimum(1, clip / size)
        uploads.append(kept + sd * rng.standard_normal(kept.shape))
    return Paths(uploads, moves), words


def right(guess: Array, words: Array) -> float:
    return float((np.abs(guess - words) < 0.5).mean())


def test_without_noise_the_number_is_exact() -> None:
    seen, words = drawn(0.0, np.inf)
    assert right(by_least_squares(seen), words) == 1


def test_little_noise_leaves_the_number_though_latents_are_clipped() -> None:
    """The direction of a clipped latent still tells; distances, which the clip takes, do not."""
    seen, words = drawn(1e-3, CLIP)
    prior = np.full(USERS, 12.0)
    assert right(by_likelihood(seen, Noise(1e-3, CLIP), prior), words) > right(prior, words) + 0.3
    assert right(by_least_squares(seen), words) < right(prior, words)


@pytest.mark.parametrize("sd", [0.03, 0.3, 3.0])
@pytest.mark.parametrize("length", [0.3, 3.0])
def test_noise_never_costs_more_than_the_few_that_are_guessed(sd: float, length: float) -> None:
    seen, words = drawn(sd, CLIP, length)
    prior = np.full(USERS, 12.0)
    found = by_likelihood(seen, Noise(sd, CLIP), prior)
    assert right(found, words) > right(prior, words) - 0.01
