"""Sources of standard normal numbers: from the system's CSPRNG, or from a named seeded stream."""

from __future__ import annotations

import math
from typing import Final, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from securefg.foundation.streams import derive_seed, numpy_stream
from securefg.protocol.codec import Clients
from securefg.secagg.prg import Keystream
from securefg.secagg.secret import RandomBytes

BLOCK: Final = 2**15
"""Uniforms for the radius, and as many for the angle, that are turned into normals at a time."""


class NoiseSource(Protocol):
    """A source of standard normals, a row per client. `protects`: nobody else could draw them
    again."""

    protects: bool

    def normal(self, shape: torch.Size, clients: Clients, name: tuple[str | int, ...]) -> Tensor:
        """Return normals of `shape`, whose first axis is `clients`, from the stream `name`."""
        ...

    def generator(self, clients: Clients, name: tuple[str | int, ...]) -> np.random.Generator:
        """Return a generator for draws that protect nothing, such as rounding."""
        ...

    def random_bytes(self, clients: Clients, name: tuple[str | int, ...]) -> RandomBytes:
        """Return a reader of random bytes for samplers of other laws."""
        ...


class SystemNoise:
    """A source of normals from AES-256-CTR under a fresh key of the system's. Names have no
    effect."""

    protects = True

    def normal(self, shape: torch.Size, clients: Clients, name: tuple[str | int, ...]) -> Tensor:
        """Return normals of `shape` under a fresh key, drawn in blocks that a cache holds."""
        normals = torch.empty(shape, dtype=torch.float64)
        stream = Keystream.fresh()
        for block in torch.split(normals.view(-1), 2 * BLOCK):
            _fill_block(block, stream.read)
        return normals

    def generator(self, clients: Clients, name: tuple[str | int, ...]) -> np.random.Generator:
        """Return a generator seeded by the system, for draws that protect nothing."""
        return np.random.default_rng()

    def random_bytes(self, clients: Clients, name: tuple[str | int, ...]) -> RandomBytes:
        """Return a reader of a keystream under a fresh key."""
        return Keystream.fresh().read


class SeededNoise:
    """A source of reproducible noise for research. It protects nothing: anyone with the seed can
    subtract it.

    A counter generator is moved to each client's place, so the noise of a client does not depend on
    which clients share its host.
    """

    protects = False

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def normal(self, shape: torch.Size, clients: Clients, name: tuple[str | int, ...]) -> Tensor:
        """Return normals of `shape` that depend only on the seed, the name and the clients."""
        words, key = _words_per_client(shape), derive_seed(self._seed, "noise", *name)
        parts = [_random_bits(key, low, high, words) for low, high in clients.ranges]
        return _box_muller(np.concatenate(parts), shape)

    def generator(self, clients: Clients, name: tuple[str | int, ...]) -> np.random.Generator:
        """Return a seeded generator for these clients and this name."""
        return numpy_stream(self._seed, "noise", str(clients), *name)

    def random_bytes(self, clients: Clients, name: tuple[str | int, ...]) -> RandomBytes:
        """Return a reader of seeded bytes, which protect nothing."""
        return self.generator(clients, name).bytes


def _fill_block(block: Tensor, read: RandomBytes) -> None:
    """Overwrite a row of float64 with normals, as `_box_muller` makes them of 53-bit uniforms.

    No seed draws them again, so they may come from PyTorch's faster functions, whose last bit
    differs between machines.
    """
    half = -(-len(block) // 2)
    bits = np.frombuffer(read(16 * half), dtype=np.uint64) >> np.uint64(11)
    uniform = torch.from_numpy(bits.astype(np.float64)).add_(0.5).mul_(2.0**-53)
    radius, angle = uniform[:half].log_().mul_(-2.0).sqrt_(), uniform[half:].mul_(2.0 * math.pi)
    torch.mul(radius, angle.cos(), out=block[:half])
    rest = len(block) - half
    torch.mul(radius[:rest], angle[:rest].sin_(), out=block[half:])


def _random_bits(key: int, low: int, high: int, words: int) -> NDArray[np.uint64]:
    stream = np.random.Philox(key=key).advance(low * words // 4)  # one count makes four words
    return stream.random_raw((high - low) * words).reshape(high - low, words)


def _words_per_client(shape: torch.Size) -> int:
    return -(-math.prod(shape[1:]) // 4) * 4


def _box_muller(bits: NDArray[np.uint64], shape: torch.Size) -> Tensor:
    """Return normals by Box-Muller in float64 over 53-bit uniforms. The tail ends at 8.6 sigma
    (mass below 1e-17)."""
    uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    first, second = np.split(uniform, 2, axis=1)
    radius, angle = np.sqrt(-2.0 * np.log(first)), 2.0 * math.pi * second
    normals = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return torch.from_numpy(normals[:, : math.prod(shape[1:])].reshape(shape))
