"""Anybody's defence under games, and the sharper bound from one run."""

from __future__ import annotations

import numpy as np
import pytest

from audits.empirical_epsilon import epsilon_of_mu, one_run_bound, one_run_gdp_bound
from audits.mechanisms.callables import Claim, Release, found_callable, measure_release
from securefg.foundation.errors import ConfigError

CLAIM = Claim(epsilon=2.0, delta=1e-5, size=8)


def gaussian(sigma: float, clip: bool = True) -> Release:
    rng = np.random.default_rng(0)

    def release(values: np.ndarray) -> np.ndarray:
        norm = max(float(np.linalg.norm(values)), 1.0) if clip else 1.0
        return values / norm + sigma * rng.standard_normal(values.shape)

    return release


def test_a_sound_defence_is_not_accused() -> None:
    found = measure_release(gaussian(2.0), CLAIM, 2000, 0)  # mu 1/2: epsilon 1.99
    assert found.verdict == "NOT_DETECTED"
    assert found.bound.epsilon < 1.99 < found.bound.ceiling


@pytest.mark.parametrize("release", [gaussian(0.2), gaussian(2.0, clip=False), lambda x: x])
def test_too_little_noise_or_no_clip_is_found(release: Release) -> None:
    assert measure_release(release, CLAIM, 2000, 0).verdict == "VIOLATION"


@pytest.mark.parametrize("path", ["no.such.module", "math", "math.no_such_name"])
def test_what_is_no_callable_is_refused_in_words(path: str) -> None:
    with pytest.raises(ConfigError, match="audit mechanism"):
        found_callable(path)


def test_a_claim_out_of_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="claim"):
        Claim(epsilon=-1.0, delta=1e-5)


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_the_gaussian_one_run_bound_is_sharper_and_holds(mu: float) -> None:
    rng, canaries, each = np.random.default_rng(1), 300, 50
    coins = rng.random(canaries) < 0.5
    order = np.argsort(rng.standard_normal(canaries) + mu * coins)
    right = int(coins[order[-each:]].sum() + (~coins[order[:each]]).sum())
    found = one_run_gdp_bound(canaries, 2 * each, right, 1e-5)
    assert one_run_bound(canaries, 2 * each, right, 1e-5).epsilon <= found.epsilon
    assert found.epsilon < epsilon_of_mu(mu, 1e-5)
    assert found.epsilon < found.ceiling
