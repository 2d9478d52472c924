"""Key pairs of a set-up: X25519 with ML-KEM-768 (FIPS 203), or X25519 alone.

A hybrid pair's public key is X25519 public (32 bytes) || ML-KEM-768 public (1184 bytes). Both
private halves are derived from one fresh secret. Whoever breaks X25519 learns the scalar, which is
an output of HKDF, and neither that secret nor the ML-KEM half.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal, final

from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey

from securefg.secagg.derive import expand
from securefg.secagg.encoding import encode
from securefg.secagg.errors import BadKey
from securefg.secagg.keys import FORMAT, PROTOCOL, KeyPair
from securefg.secagg.secret import SECRET_BYTES, Secret, Unprintable

Suite = Literal["hybrid", "classical"]

X25519_BYTES: Final = 32
KEM_KEY_BYTES: Final = 1184
CIPHERTEXT_BYTES: Final = 1088
KEY_BYTES: Final[dict[Suite, int]] = {
    "hybrid": X25519_BYTES + KEM_KEY_BYTES,
    "classical": X25519_BYTES,
}


@final
class FreshPair(Unprintable):
    """A client's key pair for masks or for boxes, of one set-up.

    `secret` is all that a client opens in a dispute: the same pair is rebuilt from it.
    """

    __slots__ = ("_agreement", "_kem", "public", "secret")

    def __init__(self, secret: Secret, suite: Suite) -> None:
        self.secret, self._kem = secret, None
        if suite == "classical":
            self._agreement = KeyPair(secret)
            self.public = self._agreement.public
            return
        self._agreement = KeyPair(expand(secret, _key_info("x25519")))
        halves = [expand(secret, _key_info(name)).reveal() for name in ("ml-kem d", "ml-kem z")]
        self._kem = MLKEM768PrivateKey.from_seed_bytes(b"".join(halves))
        self.public = self._agreement.public + self._kem.public_key().public_bytes_raw()

    def exchange(self, peer_public: bytes) -> Secret:
        """Return the X25519 secret with a peer's public key of the same suite."""
        return self._agreement.exchange(peer_public[:X25519_BYTES])

    def open_ciphertext(self, ciphertext: bytes) -> Secret:
        """Return the ML-KEM secret of a ciphertext; a wrong one gives a secret nobody else has."""
        assert self._kem is not None, "a classical pair is sent no ciphertext"
        try:
            return Secret(self._kem.decapsulate(ciphertext))
        except ValueError:
            raise BadKey(
                f"ML-KEM ciphertext: found {len(ciphertext)} bytes; expected {CIPHERTEXT_BYTES}"
            ) from None


def encapsulate_secret(peer_public: bytes) -> tuple[Secret, bytes]:
    """Return a fresh ML-KEM secret and its ciphertext for the owner of a hybrid public key."""
    secret, ciphertext = _kem_key(peer_public).encapsulate()
    return Secret(secret), ciphertext


def check_key(public: bytes, suite: Suite) -> None:
    """Raise `BadKey` for a public key that is malformed or agrees on nothing."""
    if len(public) != KEY_BYTES[suite]:
        raise BadKey(f"{suite} key: found {len(public)} bytes; expected {KEY_BYTES[suite]}")
    _ANYBODY.exchange(public[:X25519_BYTES])  # whether a point is of low order hangs on no secret
    if suite == "hybrid":
        _kem_key(public)


@lru_cache(maxsize=8192)
def _kem_key(public: bytes) -> MLKEM768PublicKey:
    """The ML-KEM half of a hybrid key; all neighbours on a host encapsulate to the same one."""
    try:
        return MLKEM768PublicKey.from_public_bytes(public[X25519_BYTES:])
    except ValueError:
        raise BadKey("ML-KEM-768 public key: found a malformed one") from None


def _key_info(name: str) -> bytes:
    return encode((PROTOCOL, FORMAT, "key-pair", name))


_ANYBODY: Final = KeyPair(Secret(b"\x01" * SECRET_BYTES))
