"""Sources of standard normal numbers: from the system's CSPRNG, or from a named seeded stream."""

from __future__ import annotations

import math
import os
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from securefg.streams import torch_stream


class NoiseSource(Protocol):
    """Draws standard normals. `protects` is False where the draw could be repeated by others."""

    protects: bool

    def normal(self, shape: torch.Size, name: tuple[str | int, ...]) -> Tensor: ...


class SystemNoise:
    """Box-Muller over the system's random bytes, in float64; the stream's name has no effect.

    Two 53-bit uniforms make two normals; the tail ends at sqrt(2 * 53 ln 2) = 8.6 sigma, which
    truncates less than 1e-17 of the mass.
    """

    protects = True

    def normal(self, shape: torch.Size, name: tuple[str | int, ...]) -> Tensor:
        pairs = (shape.numel() + 1) // 2
        bits = np.frombuffer(os.urandom(16 * pairs), dtype=np.uint64) >> np.uint64(11)
        uniform = (bits.astype(np.float64) + 0.5) * 2.0**-53
        radius = np.sqrt(-2.0 * np.log(uniform[:pairs]))
        angle = 2.0 * math.pi * uniform[pairs:]
        normals = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
        return torch.from_numpy(normals[: shape.numel()]).reshape(shape)


class SeededNoise:
    """Reproducible noise for research: whoever knows the seed can subtract it. It protects nothing."""

    protects = False

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def normal(self, shape: torch.Size, name: tuple[str | int, ...]) -> Tensor:
        stream = torch_stream(self._seed, "noise", *name)
        return torch.randn(shape, generator=stream, dtype=torch.float64)
