"""Named random streams: everything random has its own, derived from the run's seed.

A stream is named by what it serves (`"partition"`, `"dropout"`, client 3, round 17), so two
engines, two layouts of the hosts, and a resumed run draw the same numbers without any state kept.
Streams are for research randomness only. Noise and keys that protect come from the system's CSPRNG.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from numpy.typing import NDArray


def derive_seed(seed: int, *names: str | int) -> int:
    """Return a 63-bit seed: the head of SHA-256 over the run's seed and the stream's name."""
    name = "\x1f".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1


def torch_stream(seed: int, *names: str | int, device: str = "cpu") -> torch.Generator:
    """Return PyTorch's random stream of this name."""
    return torch.Generator(device=device).manual_seed(derive_seed(seed, *names))


def numpy_stream(seed: int, *names: str | int) -> np.random.Generator:
    """Return NumPy's random stream of this name."""
    return np.random.default_rng(derive_seed(seed, *names))


def uniform_at(places: NDArray[np.int64], seed: int, *names: str | int) -> NDArray[np.float32]:
    """Return uniform numbers in [0, 1) at any places of one long stream, with no loop over who
    draws them.

    SplitMix64 (Steele, Lea and Flood 2014): output n is a mix of seed + n times the golden ratio,
    so that a user's numbers lie at its own places, whoever shares its host.
    """
    with np.errstate(over="ignore"):
        z = places.astype(np.uint64) + np.uint64(1)
        z *= np.uint64(0x9E3779B97F4A7C15)
        z += np.uint64(derive_seed(seed, *names))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
