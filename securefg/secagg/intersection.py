"""Private set intersection of two parties, both honest but curious (Meadows 1986).

Each party hashes its ids to points H(x) of Curve25519 and multiplies them by a secret of its own.
The other multiplies again: a b H(x) = b a H(x), so equal ids meet and others look random (DDH).

    A -> B   a H(x), in random order
    B -> A   b a H(x), in the order received, and b H(y), in random order
    A        a b H(y); A learns which of its ids B has

B learns the size of A's set and A that of B's, beside the intersection; B learns nothing of it
unless A tells. A party that lies about its set learns whether ids that it made up are in the
other's: the protocol cannot tell. Points are on the curve, never on its twist: that would tell a
bit of every id.
"""

from __future__ import annotations

import hashlib
import secrets
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from securefg.foundation.errors import ProtocolError

PRIME = 2**255 - 19
A = 486662


def hash_to_curve(identity: str) -> bytes:
    """The first of SHA-256(0, x), SHA-256(1, x), ... that is the u of a point on the curve."""
    text = unicodedata.normalize("NFKC", identity).strip().encode()
    for counter in range(256):
        digest = hashlib.sha256(b"securefg psi" + bytes([counter]) + text).digest()
        u = int.from_bytes(digest, "little") % 2**255
        right = (u * u * u + A * u * u + u) % PRIME
        if u < PRIME and right and pow(right, (PRIME - 1) // 2, PRIME) == 1:
            return u.to_bytes(32, "little")
    raise ProtocolError("no point was found for an id")  # one in 2^256


@dataclass(frozen=True)
class Party:
    """One side: its ids and a secret that is used for one intersection alone."""

    ids: tuple[str, ...]
    _secret: X25519PrivateKey = field(default_factory=X25519PrivateKey.generate, repr=False)

    def first(self) -> tuple[list[bytes], list[str]]:
        """Own points, blinded, in random order; the ids in that order stay here."""
        order = list(dict.fromkeys(self.ids))
        secrets.SystemRandom().shuffle(order)
        return [self._blind_point(hash_to_curve(identity)) for identity in order], order

    def blind_again(self, points: Sequence[bytes]) -> list[bytes]:
        """The other's points, blinded a second time, in the order received."""
        if len(set(points)) != len(points):
            raise ProtocolError("a point was sent twice; wanted every id once")
        return [self._blind_point(point) for point in points]

    def _blind_point(self, point: bytes) -> bytes:
        if not is_on_curve(point):
            raise ProtocolError("found bytes that are no point of the curve")
        try:
            return self._secret.exchange(X25519PublicKey.from_public_bytes(point))
        except ValueError as error:
            raise ProtocolError("found a point of small order") from error


def is_on_curve(point: bytes) -> bool:
    """Whether 32 bytes are the u coordinate of a point of Curve25519, and not of its twist."""
    u = int.from_bytes(point, "little")
    right = (u * u * u + A * u * u + u) % PRIME
    return len(point) == 32 and u < PRIME and pow(right, (PRIME - 1) // 2, PRIME) == 1


def shared_ids(
    order: Sequence[str], own_points: Sequence[bytes], theirs: Sequence[bytes]
) -> list[str]:
    """Return the own ids that the other has.

    `own_points` is b a H(x) in the order sent, `theirs` is a b H(y)."""
    if len(own_points) != len(order):
        raise ProtocolError(f"{len(own_points)} points came back of {len(order)} that were sent")
    known = set(theirs)
    return sorted(one for one, point in zip(order, own_points, strict=True) if point in known)
