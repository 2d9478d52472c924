"""Shamir's secret sharing of 32-byte secrets: any t shares give the secret, t - 1 give nothing.

The field is the integers mod p = 2^256 + 297, the least prime above 2^256, so every 32-byte
secret is an element (Shamir 1979). Python's integers do not run in constant time; shares are
made and combined where the secret is known or about to be, so timing tells nobody more.

Polynomials are evaluated at many points at once. Where the points are 1, 2, …, n, as for every
client of a complete mask graph, the powers x^j mod p are the same for all: they are kept in limbs
of 16 bits, and one product of matrices of floats evaluates the polynomial at all points. Limb
products stay below 2^53, so the floats are exact. Elsewhere, and where the table would grow large,
Horner's rule on Python's integers does it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Final, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from securefg.secagg.encoding import encode, encode_tuple, in_a_row
from securefg.secagg.errors import BadShares, ReconstructionFailed
from securefg.secagg.keys import PROTOCOL, VERSION
from securefg.secagg.secret import SECRET_BYTES, SYSTEM_RANDOM, RandomBytes, Secret, Unprintable

PRIME: Final = 2**256 + 297

_LIMBS: Final = 17
_LIMB_BITS: Final = 16
_LARGEST_TABLE: Final = 20_000
_GROUP: Final = 4
_LAZY_STEPS: Final = 16
"""Horner's rule reduces mod p so often: intermediate numbers grow by a point's few bits a step."""


def evaluate_polynomial(coefficients: Sequence[int], points: Sequence[int]) -> list[int]:
    """f(x) mod p at every point; the first coefficient is that of the highest power."""
    count = len(points)
    in_a_row = count > 0 and points[0] == 1 and points[-1] == count
    if in_a_row and count * len(coefficients) <= _LARGEST_TABLE and sorted(points) == list(points):
        return _by_table(coefficients, count)
    return [_evaluate_by_horner(coefficients, x) for x in points]


def _evaluate_by_horner(coefficients: Sequence[int], x: int) -> int:
    value = 0
    for start in range(0, len(coefficients), _LAZY_STEPS):
        for coefficient in coefficients[start : start + _LAZY_STEPS]:
            value = value * x + coefficient
        value %= PRIME
    return value


def _by_table(coefficients: Sequence[int], count: int) -> list[int]:
    # PyTorch's product keeps to the threads that a run allows; NumPy's would take every core.
    products = torch.mm(
        _power_limbs(count, len(coefficients)), torch.from_numpy(_split_limbs(coefficients))
    )
    # Limb a of the power times limb b of the coefficient counts 2^(16 (a + b)): shifting row a by
    # a places puts equal sums below one another.
    skewed = np.zeros((count, _LIMBS, 2 * _LIMBS))
    skewed[:, :, :_LIMBS] = products.numpy().reshape(count, _LIMBS, _LIMBS)
    width = 2 * _LIMBS - 1
    sums = skewed.reshape(count, -1)[:, : _LIMBS * width].reshape(count, _LIMBS, width).sum(1)
    return _join_limbs(sums)


def _join_limbs(sums: NDArray[np.float64]) -> list[int]:
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
def _power_limbs(count: int, num_coefficients: int) -> Tensor:
    """Row (x, limb), column j: that limb of x^(t-1-j) mod p, for x = 1 … count."""
    rows = []
    for x in range(1, count + 1):
        powers = [1]
        while len(powers) < num_coefficients:
            powers.append(powers[-1] * x % PRIME)
        rows.append(_split_limbs(powers[::-1]).T)
    return torch.from_numpy(np.ascontiguousarray(np.concatenate(rows)))


def _split_limbs(numbers: Sequence[int]) -> NDArray[np.float64]:
    raw = b"".join(number.to_bytes(2 * _LIMBS, "little") for number in numbers)
    return np.frombuffer(raw, "<u2").reshape(len(numbers), _LIMBS).astype(np.float64)


SHARE_BYTES: Final = 33

# 49 bytes are 135 bits more than p has: reduced mod p they are uniform to within 2^-135.
_COEFFICIENT_BYTES: Final = 49

Check = Callable[[Secret], None]
"""Raises `ReconstructionFailed` unless the secret is the one that was shared."""


@final
@dataclass(frozen=True, repr=False)
class Share(Unprintable):
    """The value of the sharing polynomial at a point, a holder's number in the roster plus one."""

    point: int
    value: int = field(repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.point < PRIME:
            raise BadShares(f"share point {self.point} lies outside 1 … p - 1")
        if not 0 <= self.value < PRIME:
            raise BadShares(f"the share at point {self.point} lies outside the field")

    def __repr__(self) -> str:
        return f"<Share at {self.point}, hidden>"

    def encode(self) -> bytes:
        """The value on 33 bytes, big endian; the point is known from who holds it."""
        return self.value.to_bytes(SHARE_BYTES, "big")

    @classmethod
    def decode(cls, point: int, data: bytes) -> Share:
        """Return the share at a point. Raise `BadShares` for bytes of another length."""
        if len(data) != SHARE_BYTES:
            raise BadShares(
                f"the share at point {point} has {len(data)} bytes, wanted {SHARE_BYTES}"
            )
        return cls(point, int.from_bytes(data, "big"))


def split_secret(
    secret: Secret,
    points: Sequence[int],
    threshold: int,
    random_bytes: RandomBytes = SYSTEM_RANDOM,
) -> tuple[Share, ...]:
    """Shares f(x) at the points, f(x) = secret + a_1 x + … + a_(t-1) x^(t-1) mod p, a_i uniform."""
    _require_points(points, threshold)
    drawn = random_bytes(_COEFFICIENT_BYTES * (threshold - 1))
    coefficients = [
        int.from_bytes(drawn[at : at + _COEFFICIENT_BYTES], "big") % PRIME
        for at in range(0, len(drawn), _COEFFICIENT_BYTES)
    ]
    coefficients.append(int.from_bytes(secret.reveal(), "big"))
    return tuple(map(Share, points, evaluate_polynomial(coefficients, points)))


def combine_shares(shares: Sequence[Share], threshold: int, check: Check) -> Secret:
    """The shared secret f(0) = sum_i f(x_i) prod_{j != i} x_j / (x_j - x_i), after its check.

    Uses the shares at the `threshold` lowest points, so that one set of holders costs its
    Lagrange coefficients once, however many secrets it rebuilds.
    """
    _require_points([share.point for share in shares], threshold)
    chosen = sorted(shares, key=lambda share: share.point)[:threshold]
    weights = _lagrange_at_zero(tuple(share.point for share in chosen))
    value = sum(w * share.value for w, share in zip(weights, chosen, strict=True)) % PRIME
    if value >= 1 << (8 * SECRET_BYTES):
        raise ReconstructionFailed("the shares combine to a number above 2^256; one is corrupt")
    secret = Secret(value.to_bytes(SECRET_BYTES, "big"))
    check(secret)
    return secret


def commit_to_secret(secret: Secret, session: bytes, party: int) -> bytes:
    """SHA-256 over (domain, session, party, secret); a uniform 32-byte secret stays hidden."""
    return hashlib.sha256(
        encode((PROTOCOL, VERSION, "commitment", session, party, secret.reveal()))
    ).digest()


def share_digest(share: Share, session: bytes, owner: int, what: str) -> bytes:
    """SHA-256 by which a revealed share is known to be the one that its owner dealt. A share is
    uniform over 2^256 values, so that the digest gives nothing of it away."""
    about = _about_share(session, owner, what)
    return hashlib.sha256(encode_tuple(about, encode(share.point), encode(share.encode()))).digest()


@lru_cache(maxsize=4096)
def _about_share(session: bytes, owner: int, what: str) -> bytes:
    return in_a_row(PROTOCOL, VERSION, "share", session, owner, what)


def commits_to(expected: bytes, session: bytes, party: int) -> Check:
    """A check for `combine`: the secret must be the one that the party committed to."""

    def check(secret: Secret) -> None:
        if commit_to_secret(secret, session, party) != expected:
            raise ReconstructionFailed(f"the shares do not give what party {party} committed to")

    return check


@lru_cache(maxsize=1024)
def _lagrange_at_zero(points: tuple[int, ...]) -> tuple[int, ...]:
    numerator = 1
    for x in points:
        numerator = numerator * x % PRIME
    # prod_{j != i} x_j / (x_j - x_i) = prod_j x_j / (x_i prod_{j != i} (x_j - x_i))
    denominators = [math.prod(factors) % PRIME for factors in _point_differences(points)]
    return tuple(numerator * inverse % PRIME for inverse in _invert_values(denominators))


def _point_differences(points: tuple[int, ...]) -> list[list[int]]:
    """For every x_i, numbers whose product is x_i prod_{j != i} (x_j - x_i).

    Differences of places have few bits: products of `_GROUP` of them fit into a machine word.
    """
    if max(points) >= 1 << (63 // _GROUP):
        return [[y - x or x for y in points] for x in points]
    at = np.array(points, np.int64)
    factors = at[None, :] - at[:, None]
    np.fill_diagonal(factors, at)
    padded = np.ones((len(at), -(-len(at) // _GROUP) * _GROUP), np.int64)
    padded[:, : len(at)] = factors
    grouped: list[list[int]] = padded.reshape(len(at), -1, _GROUP).prod(-1).tolist()
    return grouped


def _invert_values(values: Sequence[int]) -> list[int]:
    """All inverses mod p for the price of one: 1/a_i = a_1 … a_(i-1) / (a_1 … a_i) (Montgomery)."""
    products = list(accumulate(values, lambda a, b: a * b % PRIME, initial=1))
    rest, inverses = pow(products[-1], -1, PRIME), []
    for value, before in zip(reversed(values), reversed(products[:-1]), strict=True):
        inverses.append(rest * before % PRIME)
        rest = rest * value % PRIME
    return inverses[::-1]


def _require_points(points: Sequence[int], threshold: int) -> None:
    if threshold < 1:
        raise BadShares(f"threshold: found {threshold}, wanted at least 1")
    if len(set(points)) != len(points):
        twice = sorted({x for x in points if list(points).count(x) > 1})
        raise BadShares(f"points {twice} appear more than once")
    if len(points) < threshold:
        raise BadShares(f"{len(points)} shares do not reach the threshold {threshold}")
