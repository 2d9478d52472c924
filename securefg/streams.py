"""Named random streams: everything random has its own, derived from the run's seed.

A stream is named by what it serves (`"partition"`, `"dropout"`, client 3, round 17), so two
engines, two layouts of the hosts, and a resumed run draw the same numbers without any state kept.
Streams are for research randomness only; noise and keys that protect come from the system's CSPRNG.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch


def derive_seed(seed: int, *names: str | int) -> int:
    """A 63-bit seed: the head of SHA-256 over the run's seed and the stream's name."""
    name = "\x1f".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1


def torch_stream(seed: int, *names: str | int, device: str = "cpu") -> torch.Generator:
    return torch.Generator(device=device).manual_seed(derive_seed(seed, *names))


def numpy_stream(seed: int, *names: str | int) -> np.random.Generator:
    return np.random.default_rng(derive_seed(seed, *names))
