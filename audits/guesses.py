"""Guesses of noise: the seeds and generators that an adversary would try first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from audits.noise_law import LawTest
from securefg.foundation.streams import derive_seed
from securefg.privacy.noise import NoiseSource, SeededNoise
from securefg.protocol.codec import Clients

STREAMS = ("noise", "clients", "server", "partition", "weights")
SMALL = range(128)
SMALL_SPACE, FIRST = 1 << 14, 32
FAMOUS = (1234, 1337, 3407, 12345, 31337, 123456, 2**31 - 1, 2**32 - 1, *range(2015, 2027))


class Claiming(SeededNoise):
    """Seeded noise that passes for the system's: a host's cohort is drawn at once."""

    protects = True


class TorchNoise(SeededNoise):
    """A torch generator seeded afresh at every draw."""

    def normal(self, shape: torch.Size, clients: Clients, name: tuple[str | int, ...]) -> Tensor:
        generator = torch.Generator().manual_seed(self._seed)
        return torch.randn(shape, generator=generator, dtype=torch.float64)


class NumpyNoise(SeededNoise):
    """A numpy generator seeded afresh at every draw."""

    def normal(self, shape: torch.Size, clients: Clients, name: tuple[str | int, ...]) -> Tensor:
        return torch.from_numpy(np.random.default_rng(self._seed).standard_normal(tuple(shape)))


def likely_seeds(run_seed: int) -> list[int]:
    """The run's seed, its named streams and theirs, small numbers, and those that people like."""
    derived = [derive_seed(run_seed, name) for name in STREAMS]
    again = [derive_seed(seed, "noise") for seed in derived]
    return list(dict.fromkeys([run_seed, *derived, *again, *SMALL, *FAMOUS]))


@lru_cache(maxsize=1)
def small_space() -> NDArray[np.float64]:
    """A row for every small seed and every generator that people use: its first normals."""
    legacy, generator, rows = np.random.RandomState(0), torch.Generator(), []
    for seed in range(SMALL_SPACE):
        rows.append(np.random.Generator(np.random.PCG64(seed)).standard_normal(FIRST))
        legacy.seed(seed)
        rows.append(legacy.standard_normal(FIRST))
        generator.manual_seed(seed)
        rows.append(torch.randn(FIRST, generator=generator, dtype=torch.float64).numpy())
        generator.manual_seed(seed)
        rows.append(torch.randn(FIRST, generator=generator).double().numpy())
    return np.stack(rows)


def guessed_sources(seeds: Sequence[int], *, discrete: bool) -> list[NoiseSource]:
    """Every seed in every generator; discrete noise, slow to redraw, in the project's own alone."""
    kinds = (SeededNoise, Claiming) if discrete else (SeededNoise, TorchNoise, NumpyNoise)
    chosen = seeds[:48] if discrete else seeds
    return [kind(seed) for seed in chosen for kind in kinds]


def likeness_test(noise: NDArray[np.float64], guesses: NDArray[np.float64]) -> LawTest:
    """Whether the first numbers of a client's noise are those of a guess, or of a small seed."""
    width = len(noise)
    tried = np.concatenate([guesses, small_space()[:, :width]])
    if width < 6:
        return LawTest("guessable seed", 1.0, True, "too few numbers to tell seeds by")
    sizes = np.linalg.norm(tried, axis=1) * float(np.linalg.norm(noise))
    best = float(np.abs(tried @ noise / np.maximum(sizes, 1e-300)).max())
    # Between independent directions |r| >= b has a chance of at most (1 - b^2)^((n - 2) / 2).
    p = min(1.0, len(tried) * max(0.0, 1 - best * best) ** ((width - 2) / 2))
    words = f"its first numbers have a correlation of {best:.4f} with those of a guessed seed"
    return LawTest("guessable seed", p, True, words)
