"""Guesses of noise: the seeds and generators that an adversary would try first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from securefg.foundation.streams import derive_seed
from securefg.privacy.noise import NoiseSource, SeededNoise
from securefg.protocol.codec import Clients

STREAMS = ("noise", "clients", "server", "partition", "weights")
SMALL = range(128)
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


def guessed_sources(seeds: Sequence[int], *, discrete: bool) -> list[NoiseSource]:
    """Every seed in every generator; discrete noise, slow to redraw, in the project's own alone."""
    kinds = (SeededNoise, Claiming) if discrete else (SeededNoise, TorchNoise, NumpyNoise)
    chosen = seeds[:48] if discrete else seeds
    return [kind(seed) for seed in chosen for kind in kinds]
