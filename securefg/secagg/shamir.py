"""Shamir's secret sharing of 32-byte secrets: any t shares give the secret, t - 1 give nothing.

The field is the integers mod p = 2^256 + 297, the least prime above 2^256, so every 32-byte
secret is an element (Shamir 1979). Python's integers do not run in constant time; shares are
made and combined where the secret is known or about to be, so timing tells nobody more.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Final, final

from securefg.secagg.encoding import encode, in_a_row, tupled
from securefg.secagg.errors import BadShares, ReconstructionFailed
from securefg.secagg.keys import PROTOCOL, VERSION
from securefg.secagg.polynomials import PRIME, evaluate
from securefg.secagg.secret import SECRET_BYTES, SYSTEM_RANDOM, RandomBytes, Secret, Unprintable

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
        if len(data) != SHARE_BYTES:
            raise BadShares(
                f"the share at point {point} has {len(data)} bytes, wanted {SHARE_BYTES}"
            )
        return cls(point, int.from_bytes(data, "big"))


def split(
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
    return tuple(map(Share, points, evaluate(coefficients, points)))


def combine(shares: Sequence[Share], threshold: int, check: Check) -> Secret:
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


def commitment(secret: Secret, session: bytes, party: int) -> bytes:
    """SHA-256 over (domain, session, party, secret); a uniform 32-byte secret stays hidden."""
    return hashlib.sha256(
        encode((PROTOCOL, VERSION, "commitment", session, party, secret.reveal()))
    ).digest()


def share_digest(share: Share, session: bytes, owner: int, what: str) -> bytes:
    """SHA-256 by which a revealed share is known to be the one that its owner dealt. A share is
    uniform over 2^256 values, so that the digest gives nothing of it away."""
    about = _about_share(session, owner, what)
    return hashlib.sha256(tupled(about, encode(share.point), encode(share.encode()))).digest()


@lru_cache(maxsize=4096)
def _about_share(session: bytes, owner: int, what: str) -> bytes:
    return in_a_row(PROTOCOL, VERSION, "share", session, owner, what)


def commits_to(expected: bytes, session: bytes, party: int) -> Check:
    """A check for `combine`: the secret must be the one that the party committed to."""

    def check(secret: Secret) -> None:
        if commitment(secret, session, party) != expected:
            raise ReconstructionFailed(f"the shares do not give what party {party} committed to")

    return check


@lru_cache(maxsize=1024)
def _lagrange_at_zero(points: tuple[int, ...]) -> tuple[int, ...]:
    numerator = 1
    for x in points:
        numerator = numerator * x % PRIME
    # prod_{j != i} x_j / (x_j - x_i) = prod_j x_j / (x_i prod_{j != i} (x_j - x_i))
    denominators = []
    for place, x in enumerate(points):
        factors = [other - x for other in points]
        factors[place] = x
        denominators.append(math.prod(factors) % PRIME)
    return tuple(numerator * inverse % PRIME for inverse in _inverses(denominators))


def _inverses(values: Sequence[int]) -> list[int]:
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
