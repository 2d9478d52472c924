"""The first normals of many seeds at once, of each generator that people use.

A generator that is seeded draws through hundreds of words before its first number: a search over
seeds spends its time there. The seedings below are those of NumPy and PyTorch over arrays of seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

FIRST: Final = 32
"""So many normals of each seed."""

Rows = NDArray[np.float32]
_Words = NDArray[np.uint32]

_AT_ONCE: Final = 4096
_TRIALS: Final = 30
"""Of the legacy generator's rejections: 16 pairs are wanted, and four of five are taken."""


def first_normals(seeds: Sequence[int]) -> Rows:
    """Return rows for every seed, one per generator: NumPy's, its legacy one, PyTorch's in double
    and in single precision. A generator that takes 32 bits gets the lowest 32 bits of the seed."""
    normal_rows = np.empty((len(seeds), 4, FIRST), np.float32)
    for start in range(0, len(seeds), _AT_ONCE):
        some = seeds[start : start + _AT_ONCE]
        rows = normal_rows[start : start + len(some)]
        words = _first_outputs([seed % 2**32 for seed in some])
        rows[:, 0] = _numpy_normals(some)
        rows[:, 1] = _legacy_normals(words, some)
        rows[:, 2] = _box_muller(_uniform_doubles(words))
        rows[:, 3] = _box_muller(_uniform_singles(words))
    return normal_rows.reshape(-1, FIRST)


# ------------------------------------------------------------------------ Mersenne twister


def _first_outputs(seeds: Sequence[int]) -> _Words:
    """Return (words, seeds): the first outputs of MT19937, as NumPy's legacy and PyTorch seed
    it."""
    count = 4 * _TRIALS
    state = np.empty((397 + count, len(seeds)), np.uint32)
    state[0] = seeds
    for i in range(1, len(state)):
        before = state[i - 1]
        state[i] = (before ^ (before >> 30)) * np.uint32(1812433253) + np.uint32(i)
    joined = (state[:count] & np.uint32(0x80000000)) | (state[1 : count + 1] & np.uint32(2**31 - 1))
    odd = joined & np.uint32(1)
    y: _Words = state[397:] ^ (joined >> np.uint32(1)) ^ (odd * np.uint32(0x9908B0DF))
    y ^= y >> 11
    y ^= (y << 7) & np.uint32(0x9D2C5680)
    y ^= (y << 15) & np.uint32(0xEFC60000)
    y ^= y >> 18
    return y


def _uniform_doubles(words: _Words) -> NDArray[np.float64]:
    """Return PyTorch's uniform doubles, the lower 53 bits of two words."""
    high, low = words[: 2 * FIRST : 2] & np.uint32(2**21 - 1), words[1 : 2 * FIRST : 2]
    return (high.astype(np.float64) * 2.0**32 + low) * 2.0**-53


def _uniform_singles(words: _Words) -> NDArray[np.float64]:
    """Return PyTorch's uniform singles, the lower 24 bits of a word."""
    return (words[:FIRST] & np.uint32(2**24 - 1)).astype(np.float64) * 2.0**-24


def _box_muller(uniform: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return PyTorch's normals, in groups of 16: eight radii, then their eight angles."""
    groups = uniform.reshape(-1, 2, 8, uniform.shape[1])
    radius = np.sqrt(-2 * np.log(1 - groups[:, 0]))
    angle = 2 * np.pi * groups[:, 1]
    both = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
    return both.reshape(uniform.shape).T


def _legacy_normals(words: _Words, seeds: Sequence[int]) -> NDArray[np.float64]:
    """Return the normals of NumPy's legacy generator, by the polar method: pairs in the unit disc
    are taken, the second of each first."""
    parts = words.reshape(_TRIALS, 2, 2, -1)
    uniform = ((parts[:, :, 0] >> 5) * 67108864.0 + (parts[:, :, 1] >> 6)) * 2.0**-53
    pairs = np.moveaxis(2 * uniform - 1, -1, 0)  # (seeds, trials, 2)
    radius = (pairs**2).sum(2)
    taken = (radius < 1) & (radius > 0)
    order = np.argsort(~taken, 1, kind="stable")[:, : FIRST // 2]
    squared = np.take_along_axis(radius, order, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = np.sqrt(-2 * np.log(squared) / squared)
    chosen = np.take_along_axis(pairs, order[:, :, None], 1)[:, :, ::-1]
    rows: NDArray[np.float64] = (factor[:, :, None] * chosen).reshape(-1, FIRST)
    for i in np.flatnonzero(taken.sum(1) < FIRST // 2).tolist():  # one in thousands
        rows[i] = np.random.RandomState(seeds[i] % 2**32).standard_normal(FIRST)
    return rows


# ----------------------------------------------------------------------- NumPy's default


def _numpy_normals(seeds: Sequence[int]) -> NDArray[np.float64]:
    """Return the normals of NumPy's generator. One generator is put where `PCG64(seed)` would
    begin."""
    multiplier, modulus = 0x2360ED051FC65DA44385DF649FCCF645, 2**128
    bits = np.random.PCG64(0)
    generator, rows = np.random.Generator(bits), np.empty((len(seeds), FIRST))
    for row, drawn in zip(rows, _hash_seeds(seeds).tolist(), strict=True):
        start, step = drawn[0] << 64 | drawn[1], (drawn[2] << 65 | drawn[3] << 1 | 1) % modulus
        place = ((start + step) * multiplier + step) % modulus
        bits.state = {
            "bit_generator": "PCG64",
            "state": {"state": place, "inc": step},
            "has_uint32": 0,
            "uinteger": 0,
        }
        row[:] = generator.standard_normal(FIRST)
    return rows


def _hash_seeds(seeds: Sequence[int]) -> NDArray[np.uint64]:
    """Return `SeedSequence(seed).generate_state(4, uint64)` for every seed, (seeds, 4)."""
    entropy = np.array([[seed >> (32 * i) & 0xFFFFFFFF for seed in seeds] for i in range(4)])
    pool = entropy.astype(np.uint32)
    constant = _Constant(0x43B0D7E5, 0x931E8875)
    for i in range(4):
        pool[i] = constant.hash_words(pool[i])
    for source in range(4):
        for target in range(4):
            if source != target:
                other = constant.hash_words(pool[source])
                mixed = np.uint32(0xCA01F9DD) * pool[target] - np.uint32(0x4973F715) * other
                pool[target] = mixed ^ (mixed >> 16)
    constant = _Constant(0x8B51F9DD, 0x58F38DED)
    words = np.stack([constant.hash_words(pool[i % 4]) for i in range(8)], 1)
    return np.ascontiguousarray(words).view("<u8")


class _Constant:
    """A constant by which values are hashed, and which changes each time."""

    def __init__(self, first: int, multiplier: int) -> None:
        self._now, self._multiplier = first, multiplier

    def hash_words(self, values: _Words) -> _Words:
        before, self._now = self._now, self._now * self._multiplier % 2**32
        product: _Words = (values ^ np.uint32(before)) * np.uint32(self._now)
        product ^= product >> 16
        return product
