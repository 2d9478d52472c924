"""Identities that sign, and fresh key pairs that agree on a secret per pair and session.

A host's identities lie in one file, which only its owner reads.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from securefg.protocol.codec import Clients
from securefg.secagg.encoding import Item, encode
from securefg.secagg.errors import BadKey, BadSignature
from securefg.secagg.secret import SECRET_BYTES, SYSTEM_RANDOM, RandomBytes, Secret, Unprintable

PROTOCOL: Final = "securefg-secagg"
VERSION: Final = 1
"""Of labels: what a derived key, a box or a commitment is made of did not change since."""

FORMAT: Final = 2
"""Of messages and set-ups. Format 1 had no ML-KEM keys and no signed pair tags."""


@final
class Identity(Unprintable):
    """A party's long-lived Ed25519 key; the others know its public half beforehand.

    A signature covers encode((protocol, version, purpose, *items)): one made for one purpose
    says nothing under another.
    """

    __slots__ = ("_private", "public")

    def __init__(self, secret: Secret) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(secret.reveal())
        self.public = self._private.public_key().public_bytes_raw()

    @classmethod
    def fresh(cls, random_bytes: RandomBytes = SYSTEM_RANDOM) -> Identity:
        """Return a new identity."""
        return cls(Secret.fresh(random_bytes))

    def sign(self, purpose: str, *items: Item) -> bytes:
        """Return the Ed25519 signature on the items, for this purpose."""
        return self._private.sign(_signed_statement(purpose, items))

    def check(self, signature: bytes, purpose: str, *items: Item) -> None:
        """Raise `BadSignature` unless this key signed these items for this purpose."""
        verify(self.public, signature, purpose, *items)


def verify(public: bytes, signature: bytes, purpose: str, *items: Item) -> None:
    """Raise `BadSignature` unless the owner of `public` signed these items for this purpose."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(
            signature, _signed_statement(purpose, items)
        )
    except (InvalidSignature, ValueError):
        raise BadSignature(
            f"the signature on {purpose!r} is not by the key {public.hex()[:16]}…"
        ) from None


def _signed_statement(purpose: str, items: tuple[Item, ...]) -> bytes:
    return encode((PROTOCOL, VERSION, purpose, *items))


@lru_cache(maxsize=4096)
def _public_point(public: bytes) -> X25519PublicKey:
    """A client's key as OpenSSL holds it: all its neighbours on a host agree with the same one."""
    return X25519PublicKey.from_public_bytes(public)


@final
class KeyPair(Unprintable):
    """An X25519 pair, fresh for every session: one for masks, another for share boxes.

    `secret` is the 32 bytes that Shamir shares; a pair rebuilt from them agrees as the first did.
    """

    __slots__ = ("_private", "public", "secret")

    def __init__(self, secret: Secret) -> None:
        self.secret = secret
        self._private = X25519PrivateKey.from_private_bytes(secret.reveal())
        self.public = self._private.public_key().public_bytes_raw()

    @classmethod
    def fresh(cls, random_bytes: RandomBytes = SYSTEM_RANDOM) -> KeyPair:
        """Return a new key pair."""
        return cls(Secret.fresh(random_bytes))

    def agree_root(self, peer_public: bytes, session_id: bytes) -> Secret:
        """The pair's root: HKDF-Extract(salt = session_id, X25519(own secret, peer public)).

        It serves no use by itself; `derive` expands it into one key per purpose (RFC 5869).
        """
        shared = self.exchange(peer_public)
        return Secret(hmac.digest(session_id, shared.reveal(), hashlib.sha256))

    def exchange(self, peer_public: bytes) -> Secret:
        """Return X25519(own secret, peer public).

        A point of low order gives every peer the same secret, so it is refused (RFC 7748, 6.1).
        """
        try:
            return Secret(self._private.exchange(_public_point(peer_public)))
        except ValueError:
            raise BadKey(
                f"X25519 public key {peer_public.hex()[:16]}… ({len(peer_public)} bytes) is "
                "malformed or of low order"
            ) from None


def make_identities(folder: Path, hosts: Mapping[str, Clients]) -> list[bytes]:
    """Everybody's public key by client number; hosts without a file get new keys.

    In one organisation's experiment this stands for enrolment, where each party makes its own.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    roster: dict[int, bytes] = {}
    for name, clients in hosts.items():
        path = folder / f"{name}.keys"
        if not path.exists():
            _write_private(path, SYSTEM_RANDOM(SECRET_BYTES * len(clients)))
        roster |= {n: identity.public for n, identity in load_identities(path, clients).items()}
    return [roster[number] for number in sorted(roster)]


def load_identities(path: Path, clients: Clients) -> dict[int, Identity]:
    """Return the identities in a host's file, by client number."""
    raw = path.read_bytes()
    secrets = [raw[i : i + SECRET_BYTES] for i in range(0, len(raw), SECRET_BYTES)]
    pairs = zip(clients.numbers(), secrets, strict=True)
    return {number: Identity(Secret(secret)) for number, secret in pairs}


def _write_private(path: Path, content: bytes) -> None:
    temporary = path.with_suffix(".tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.replace(temporary, path)
