"""Streams depend on the seed and on their name, and on nothing else."""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from securefg.foundation.streams import derive_seed, numpy_stream, torch_stream, uniform_at

names = st.lists(st.integers(0, 99) | st.sampled_from(["dropout", "noise", "weights"]), max_size=3)


def test_a_derived_seed_is_the_head_of_the_hash_of_its_name() -> None:
    digest = hashlib.sha256(b"7\x1fdropout\x1f3").digest()
    assert derive_seed(7, "dropout", 3) == int.from_bytes(digest[:8], "big") >> 1


def test_a_derived_seed_never_changes_between_versions() -> None:
    assert derive_seed(0, "partition") == 7261861113082177389


@given(st.integers(0, 2**63 - 1), names, names)
def test_other_names_give_other_seeds(seed: int, one: list[str], other: list[str]) -> None:
    assert (derive_seed(seed, *one) == derive_seed(seed, *other)) == (one == other)


@given(st.integers(0, 2**63 - 1), names)
def test_seeds_fit_every_generator(seed: int, name: list[str]) -> None:
    derived = derive_seed(seed, *name)
    assert 0 <= derived < 2**63
    torch.Generator().manual_seed(derived)


def test_names_are_not_merely_joined() -> None:
    assert derive_seed(1, "a", "b") != derive_seed(1, "ab")
    assert derive_seed(1, 12, 3) != derive_seed(1, 1, 23)
    assert derive_seed(1, 2) != derive_seed(12)


def test_the_same_stream_draws_the_same_numbers_again() -> None:
    draws = [torch.rand(5, generator=torch_stream(3, "weights", 1)) for _ in range(2)]
    assert torch.equal(*draws)
    assert np.array_equal(numpy_stream(3, "split").random(5), numpy_stream(3, "split").random(5))


def test_streams_of_two_rounds_differ() -> None:
    first = torch.rand(5, generator=torch_stream(3, "dropout", 1))
    second = torch.rand(5, generator=torch_stream(3, "dropout", 2))
    assert not torch.equal(first, second)


def test_drawing_from_a_stream_leaves_the_global_state_alone() -> None:
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    torch.rand(5, generator=torch_stream(3, "weights"))
    numpy_stream(3, "split").random(5)
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(numpy_before, np.random.get_state()[1])


def test_numbers_at_places_are_uniform_and_do_not_depend_on_who_draws_them_along() -> None:
    places = np.arange(100_000)
    drawn = uniform_at(places, 3, "weights")
    assert np.array_equal(uniform_at(places[5000:6000], 3, "weights"), drawn[5000:6000])
    assert not np.array_equal(uniform_at(places, 4, "weights"), drawn)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    counts = np.histogram(drawn, bins=50, range=(0, 1))[0]
    assert abs(counts - 2000).max() < 5 * 2000**0.5
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.015
