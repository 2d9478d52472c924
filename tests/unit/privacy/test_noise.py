"""Noise is normal, independent over clients and releases, and its own for every client."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from securefg.privacy.noise import (
    BLOCK,
    NoiseSource,
    SeededNoise,
    SystemNoise,
    _box_muller,
    _fill_block,
)
from securefg.protocol.codec import Clients

NAME = ("m.Update", "weights", 1, 1)
SOURCES = pytest.mark.parametrize("source", [SeededNoise(5), SystemNoise()], ids=["seeded", "sys"])


def draw(
    source: NoiseSource,
    *size: int,
    clients: Clients | None = None,
    name: tuple[str | int, ...] = NAME,
) -> torch.Tensor:
    who = clients or Clients(((0, size[0]),))
    return source.normal(torch.Size(size), who, name)


@SOURCES
def test_numbers_are_standard_normal(source: NoiseSource) -> None:
    """Kolmogorov-Smirnov at one in a million, then the first four moments at six deviations."""
    noise_numbers = draw(source, 10, 10_001).flatten().numpy()
    count = len(noise_numbers)
    assert kstest(noise_numbers, "norm").pvalue > 1e-6
    for power, moment, variance in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]:
        bound = 6 * math.sqrt(variance / count)
        assert abs(float((noise_numbers**power).mean()) - moment) < bound


@SOURCES
def test_numbers_are_uncorrelated_within_a_client_and_between_clients(source: NoiseSource) -> None:
    """Both numbers of one Box-Muller pair too: they lie half a row apart."""
    noise_numbers = draw(source, 4, 40_000).numpy()
    first, second = np.split(noise_numbers, 2, axis=1)
    pairs = [(noise_numbers[i], noise_numbers[j]) for i in range(4) for j in range(i)]
    pairs += [(first.ravel(), second.ravel()), (first.ravel() ** 2, second.ravel() ** 2)]
    pairs += [(noise_numbers[:, 1:].ravel(), noise_numbers[:, :-1].ravel())]
    for one, other in pairs:
        assert abs(np.corrcoef(one, other)[0, 1]) < 6 / math.sqrt(len(one))


@SOURCES
@pytest.mark.parametrize("size", [(3,), (3, 1), (3, 2), (2, 5), (2, 3, 7), (4, 0), (2, 0, 3)])
def test_numbers_come_in_the_shape_asked_and_in_double(
    source: NoiseSource, size: tuple[int, ...]
) -> None:
    found = draw(source, *size)
    assert found.shape == size
    assert found.dtype == torch.float64
    assert bool(found.isfinite().all())


@SOURCES
def test_no_number_occurs_twice(source: NoiseSource) -> None:
    assert len(torch.unique(draw(source, 5, 1003))) == 5015


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_block_has_the_numbers_of_box_muller(count: int) -> None:
    rng = np.random.default_rng(3)
    words = -(-count // 2) * 2
    bits = rng.integers(2**64, size=words, dtype=np.uint64)
    block = torch.empty(count, dtype=torch.float64)
    _fill_block(block, lambda size: bits.tobytes()[:size])
    wanted = _box_muller(bits[None], torch.Size((1, words)))[0, :count]
    assert torch.allclose(block, wanted, rtol=1e-12, atol=1e-12)


def test_blocks_of_system_noise_share_no_number() -> None:
    drawn = draw(SystemNoise(), 1, 5 * BLOCK + 3)[0]
    assert len(torch.unique(drawn)) == len(drawn)
    first, second, third = drawn[: 4 * BLOCK].numpy().reshape(4, BLOCK)[:3]
    for one, other in [(first, second), (first, third), (first**2, second**2)]:
        assert abs(np.corrcoef(one, other)[0, 1]) < 6 / math.sqrt(BLOCK)


@settings(max_examples=40)
@given(st.sets(st.integers(0, 30), min_size=1), st.lists(st.integers(1, 6), max_size=2))
def test_a_clients_seeded_noise_does_not_depend_on_who_shares_its_host(
    numbers: set[int], size: list[int]
) -> None:
    source = SeededNoise(5)
    whole = draw(source, 31, *size)
    found = draw(source, len(numbers), *size, clients=Clients.of(list(numbers)))
    assert torch.equal(found, whole[sorted(numbers)])


@pytest.mark.parametrize(
    "name",
    [
        ("m.Update", "weights", 2, 1),
        ("m.Update", "weights", 1, 2),
        ("m.Update", "rows", 1, 1),
        ("m.Other", "weights", 1, 1),
    ],
)
def test_another_stream_has_other_seeded_noise(name: tuple[str | int, ...]) -> None:
    same = draw(SeededNoise(5), 3, 50) == draw(SeededNoise(5), 3, 50, name=name)
    assert not bool(same.any())


def test_another_seed_has_other_noise() -> None:
    assert not bool((draw(SeededNoise(5), 3, 50) == draw(SeededNoise(6), 3, 50)).any())


def test_seeded_noise_comes_again_and_says_that_it_does_not_protect() -> None:
    assert torch.equal(draw(SeededNoise(5), 3, 50), draw(SeededNoise(5), 3, 50))
    assert SeededNoise.protects is False


def test_system_noise_never_comes_again() -> None:
    assert not bool((draw(SystemNoise(), 3, 50) == draw(SystemNoise(), 3, 50)).any())
    assert SystemNoise.protects is True


def test_system_noise_follows_no_seed() -> None:
    draws = []
    for _ in range(2):
        torch.manual_seed(0)
        np.random.seed(0)
        draws.append(draw(SystemNoise(), 3, 50))
    assert not bool((draws[0] == draws[1]).any())


@pytest.mark.parametrize("word", [0, 2**64 - 1])
def test_the_least_and_the_greatest_bits_give_finite_numbers(word: int) -> None:
    found = _box_muller(np.full((1, 4), word, dtype=np.uint64), torch.Size([1, 4]))
    assert bool(found.isfinite().all())
    assert float(found.abs().max()) < 8.7
