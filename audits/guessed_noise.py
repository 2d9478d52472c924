"""Guesses of noise: the seeds and generators that an adversary would try first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from audits.generators import FIRST, Rows, first_normals
from audits.noise_law import LawTest
from securefg.foundation.streams import derive_seed
from securefg.privacy.noise import NoiseSource, SeededNoise
from securefg.protocol.codec import Clients

STREAMS = ("noise", "clients", "server", "partition", "weights")
SMALL = range(128)
SMALL_SPACE: Final = 1 << 15
"""Small numbers, process numbers among them."""

NEAR: Final = 256
"""Seeds of a run with a small number added: of a client, a round, a rank."""

BEFORE: Final = 64
"""Seconds before an upload in which its seed may have been read off a clock."""

MOST_MICROSECONDS: Final = 10_000
FAMOUS = (1234, 1337, 3407, 12345, 31337, 123456, 2**31 - 1, 2**32 - 1, *range(2015, 2027))


class Claiming(SeededNoise):
    """A source of seeded noise that passes for the system's. A host's cohort is drawn at once."""

    protects = True


class Repeatable(Claiming):
    """A source of noise that differs from draw to draw, as sound noise does, and is the same in
    every audit of a seed. It protects nothing, and is for clients of the audit's own."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._draws = count()

    def normal(self, shape: torch.Size, clients: Clients, name: tuple[str | int, ...]) -> Tensor:
        """Draw normals that differ from draw to draw."""
        return super().normal(shape, clients, (*name, "draw", next(self._draws)))

    def generator(self, clients: Clients, name: tuple[str | int, ...]) -> np.random.Generator:
        """Return a generator that differs from draw to draw."""
        return super().generator(clients, (*name, "draw", next(self._draws)))


class TorchNoise(SeededNoise):
    """A torch generator seeded afresh at every draw."""

    def normal(self, shape: torch.Size, clients: Clients, name: tuple[str | int, ...]) -> Tensor:
        """Draw normals from a torch generator that is seeded afresh."""
        generator = torch.Generator().manual_seed(self._seed)
        return torch.randn(shape, generator=generator, dtype=torch.float64)


class NumpyNoise(SeededNoise):
    """A numpy generator seeded afresh at every draw."""

    def normal(self, shape: torch.Size, clients: Clients, name: tuple[str | int, ...]) -> Tensor:
        """Draw normals from a numpy generator that is seeded afresh."""
        return torch.from_numpy(np.random.default_rng(self._seed).standard_normal(tuple(shape)))


def likely_seeds(run_seed: int) -> list[int]:
    """Return the run's seed, its named streams and theirs, small numbers, and numbers that people
    like."""
    return list(dict.fromkeys([*_of_the_run(run_seed), *SMALL, *FAMOUS]))


def near_seeds(run_seed: int) -> list[int]:
    """Return the run's seed and its named streams, with small numbers added."""
    return [seed + more for seed in _of_the_run(run_seed) for more in range(NEAR)]


def _of_the_run(run_seed: int) -> list[int]:
    derived = [derive_seed(run_seed, name) for name in STREAMS]
    return [run_seed, *derived, *(derive_seed(seed, "noise") for seed in derived)]


def clock_seeds(first: float, last: float) -> list[int]:
    """Return what a clock showed between two moments (seconds since 1970), as seeds: whole seconds,
    milliseconds, and microseconds of the last moments. Some seconds before the first are tried
    too."""
    seconds = range(int(first) - BEFORE, int(last) + 2)
    early = max(first, last - BEFORE)
    milliseconds = range(int(early * 1e3) - 1, int(last * 1e3) + 2)
    end = int(last * 1e6) + 2
    microseconds = range(max(int(early * 1e6) - 2, end - MOST_MICROSECONDS), end)
    return [*seconds, *milliseconds, *microseconds]


@lru_cache(maxsize=1)
def small_space() -> Rows:
    """Return the first normals of every small seed, a row for every generator that people use."""
    return first_normals(range(SMALL_SPACE))


def guessed_sources(seeds: Sequence[int], *, discrete: bool) -> list[NoiseSource]:
    """Return every seed in every generator. Discrete noise is slow to redraw and uses only the
    project's own."""
    kinds = (SeededNoise, Claiming) if discrete else (SeededNoise, TorchNoise, NumpyNoise)
    chosen = seeds[:64] if discrete else seeds
    return [kind(seed) for seed in chosen for kind in kinds]


def guess_test(
    noise: NDArray[np.float64], guesses: Sequence[NDArray[np.float64]], name: str = "guessable seed"
) -> LawTest:
    """Return whether noise is one of the guesses of it, up to its size.

    Between independent directions |r| >= b has a chance of at most (1 - b^2)^((n - 2) / 2).
    """
    flat_noise = noise.ravel()
    if flat_noise.size < 6 or not guesses:
        return LawTest(name, 1.0, True, "too few numbers to tell a guess by")
    table = np.stack([guess.ravel() for guess in guesses])
    sizes = np.linalg.norm(table, axis=1) * float(np.linalg.norm(flat_noise))
    best = float((np.abs(table @ flat_noise) / np.maximum(sizes, 1e-300)).max())
    p = 2 * len(table) * max(0.0, 1 - best * best) ** ((flat_noise.size - 2) / 2)
    words = f"noise drawn again from a guess has a correlation of {best:.4f} with it"
    return LawTest(name, min(1.0, p), True, f"{words} among {len(table)} guesses")


def likeness_test(noise: NDArray[np.float64], tables: Sequence[Rows]) -> LawTest:
    """Return whether the first numbers of a client's noise, in standard deviations, are those of a
    guess.

    Between independent directions |r| >= b has a chance of at most (1 - b^2)^((n - 2) / 2). All n
    numbers are within d of a guess with a chance of at most (2 d / sqrt(2 pi))^n.
    """
    first_noise = noise[:FIRST].astype(np.float32)
    width, tried = len(first_noise), sum(map(len, tables))
    if width < 3:
        return LawTest("guessable seed", 1.0, True, "too few numbers to tell seeds by")
    best, nearest = 0.0, np.inf
    for table in tables:
        rows = table[:, :width]
        sizes = np.linalg.norm(rows, axis=1) * float(np.linalg.norm(first_noise))
        best = max(
            best, float(np.abs(rows @ first_noise / np.maximum(sizes, 1e-30)).max(initial=0.0))
        )
        apart = np.abs(rows - first_noise).max(axis=1, initial=0.0)
        nearest = min(nearest, float(apart.min(initial=np.inf)))
    alike = max(0.0, 1 - best * best) ** ((width - 2) / 2) if width >= 6 else 1.0
    equal = min(1.0, 0.8 * max(nearest, 1e-6)) ** width
    p = min(1.0, 2 * tried * min(alike, equal))
    words = (
        f"its first numbers are those of a guessed seed (a correlation of {best:.4f}, "
        f"{nearest:.1g} apart) among {tried} guesses"
    )
    return LawTest("guessable seed", p, True, words)
