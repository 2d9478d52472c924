"""Polynomials over the integers mod p = 2^256 + 297, at many points at once.

Where the points are 1, 2, …, n, as for every client of a complete mask graph, the powers x^j mod p
are the same for all: they are kept in limbs of 16 bits, and one product of matrices of floats
evaluates the polynomial at all points. Limb products stay below 2^53, so the floats are exact.
Elsewhere, and where the table would grow large, Horner's rule on Python's integers does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

PRIME: Final = 2**256 + 297

_LIMBS: Final = 17
_LIMB_BITS: Final = 16
_LARGEST_TABLE: Final = 20_000
_LAZY_STEPS: Final = 16
"""Horner's rule reduces mod p so often: intermediate numbers grow by a point's few bits a step."""


def evaluate(coefficients: Sequence[int], points: Sequence[int]) -> list[int]:
    """f(x) mod p at every point; the first coefficient is that of the highest power."""
    count = len(points)
    in_a_row = count > 0 and points[0] == 1 and points[-1] == count
    if in_a_row and count * len(coefficients) <= _LARGEST_TABLE and sorted(points) == list(points):
        return _by_table(coefficients, count)
    return [_horner(coefficients, x) for x in points]


def _horner(coefficients: Sequence[int], x: int) -> int:
    value = 0
    for start in range(0, len(coefficients), _LAZY_STEPS):
        for coefficient in coefficients[start : start + _LAZY_STEPS]:
            value = value * x + coefficient
        value %= PRIME
    return value


def _by_table(coefficients: Sequence[int], count: int) -> list[int]:
    # PyTorch's product keeps to the threads that a run allows; NumPy's would take every core.
    products = torch.mm(_powers(count, len(coefficients)), torch.from_numpy(_limbs(coefficients)))
    # Limb a of the power times limb b of the coefficient counts 2^(16 (a + b)): shifting row a by
    # a places puts equal sums below one another.
    skewed = np.zeros((count, _LIMBS, 2 * _LIMBS))
    skewed[:, :, :_LIMBS] = products.numpy().reshape(count, _LIMBS, _LIMBS)
    width = 2 * _LIMBS - 1
    sums = skewed.reshape(count, -1)[:, : _LIMBS * width].reshape(count, _LIMBS, width).sum(1)
    return _numbers(sums)


def _numbers(sums: NDArray[np.float64]) -> list[int]:
    """sum_k sums[:, k] 2^(16 k) mod p: every fourth sum is 64 bits from the one before."""
    padded = np.zeros((len(sums), 4 * -(-sums.shape[1] // 4)), "<u8")
    padded[:, : sums.shape[1]] = sums
    strides = [np.ascontiguousarray(padded[:, r::4]) for r in range(4)]
    numbers = [0] * len(sums)
    for r, words in enumerate(strides):
        raw, width = words.tobytes(), 8 * words.shape[1]
        for i in range(len(sums)):
            part = int.from_bytes(raw[i * width : (i + 1) * width], "little")
            numbers[i] += part << (_LIMB_BITS * r)
    return [number % PRIME for number in numbers]


@lru_cache(maxsize=8)
def _powers(count: int, num_coefficients: int) -> Tensor:
    """Row (x, limb), column j: that limb of x^(t-1-j) mod p, for x = 1 … count."""
    rows = []
    for x in range(1, count + 1):
        powers = [1]
        while len(powers) < num_coefficients:
            powers.append(powers[-1] * x % PRIME)
        rows.append(_limbs(powers[::-1]).T)
    return torch.from_numpy(np.ascontiguousarray(np.concatenate(rows)))


def _limbs(numbers: Sequence[int]) -> NDArray[np.float64]:
    raw = b"".join(number.to_bytes(2 * _LIMBS, "little") for number in numbers)
    return np.frombuffer(raw, "<u2").reshape(len(numbers), _LIMBS).astype(np.float64)
