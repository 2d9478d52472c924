"""The primitives of masked sessions, written a second time and without securefg."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

PRIME = 2**256 + 297
NAME, LABELS, FORMAT = "securefg-secagg", 1, 2


def pack(item: Any) -> bytes:
    """Tag, length on eight bytes, content."""
    match item:
        case bool():
            raise TypeError("a truth value has no encoding")
        case int():
            tag, content = b"i", str(item).encode()
        case str():
            tag, content = b"s", item.encode()
        case bytes():
            tag, content = b"b", item
        case tuple():
            tag, content = b"t", b"".join(map(pack, item))
    return tag + len(content).to_bytes(8, "big") + content


def sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def mac(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, "sha256").digest()


def expand(key: bytes, *label: Any) -> bytes:
    return mac(key, pack(label) + b"\x01")


def labelled(key: bytes, purpose: str, *items: Any) -> bytes:
    return expand(key, NAME, LABELS, purpose, *items)


class Stream:
    """AES-256-CTR from counter 0, over zeros."""

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(AES(key), CTR(bytes(16))).encryptor()

    def read(self, count: int) -> bytes:
        return self._cipher.update(bytes(count))


def deal(secret: bytes, points: Sequence[int], threshold: int, stream: Stream) -> dict[int, int]:
    """Return the sharing polynomial's values; the highest coefficient is drawn first."""
    drawn = [int.from_bytes(stream.read(49), "big") % PRIME for _ in range(threshold - 1)]
    shares = {}
    for point in points:
        value = 0
        for coefficient in (*drawn, int.from_bytes(secret, "big")):
            value = (value * point + coefficient) % PRIME
        shares[point] = value
    return shares


def interpolate(shares: dict[int, int]) -> bytes:
    """Return the polynomial's value at 0."""
    total = 0
    for point, value in shares.items():
        weight = value
        for other in shares:
            if other != point:
                weight = weight * other * pow(other - point, -1, PRIME) % PRIME
        total += weight
    return (total % PRIME).to_bytes(32, "big")


@dataclass
class Pair:
    """A key pair from its secret: X25519, and ML-KEM-768 in the hybrid suite."""

    secret: bytes
    hybrid: bool

    def __post_init__(self) -> None:
        def half(name: str) -> bytes:
            return expand(self.secret, NAME, FORMAT, "key-pair", name)

        scalar = half("x25519") if self.hybrid else self.secret
        self.agreement = X25519PrivateKey.from_private_bytes(scalar)
        self.public = self.agreement.public_key().public_bytes_raw()
        if self.hybrid:
            self.kem = MLKEM768PrivateKey.from_seed_bytes(half("ml-kem d") + half("ml-kem z"))
            self.public += self.kem.public_key().public_bytes_raw()

    def link(self, setup: bytes, peer: bytes, label: tuple[Any, ...], received: bytes) -> bytes:
        """Return the first link of a chain, from the side that a ciphertext was sent to."""
        agreed = self.agreement.exchange(X25519PublicKey.from_public_bytes(peer[:32]))
        if not self.hybrid:
            return mac(setup, agreed)
        both = agreed + self.kem.decapsulate(received)
        return labelled(mac(setup, both), *label, received)
