"""Noise that comes again in another order, and sound noise of messages of every length."""

from __future__ import annotations

import numpy as np
import pytest

from audits.noise_law import _test_repeats, law_tests, worst_test

LEVEL = 1e-6


@pytest.mark.parametrize("width", [7, 65, 2_000, 100_000])
def test_sound_messages_of_any_length_are_not_alike(width: int) -> None:
    """The smallest of very many numbers all round to 0, and tell nothing."""
    noise = np.random.default_rng(width).standard_normal((24, 1, width))
    assert _test_repeats(noise).p > LEVEL
    assert _test_repeats(noise, "message").p > LEVEL


@pytest.mark.parametrize("shape", [(4, 50, 16), (4, 1, 3000)])
def test_a_message_that_is_another_in_another_order_is_found(shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(shape)
    flat = noise.reshape(len(noise), -1)
    flat[3] = rng.permutation(flat[0]) * rng.choice([-1, 1], flat.shape[1])
    found = worst_test(law_tests(noise, rounds=4), LEVEL)
    assert found is not None
    assert found.severe
    assert "repeated" in found.name


def test_noise_that_cancels_over_rows_or_columns_is_found() -> None:
    """More of them than directions are looked for among."""
    noise = np.random.default_rng(0).standard_normal((5, 600, 7))
    assert worst_test(law_tests(noise), LEVEL) is None
    found = worst_test(law_tests(noise - noise.mean(1, keepdims=True)), LEVEL)
    assert found is not None
    assert found.name == "noise of a sum of rows"
