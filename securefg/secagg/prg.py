"""The keystream that masks and noise are made of: AES-256 in counter mode."""

from __future__ import annotations

from typing import Any, Final, final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from securefg.secagg.secret import SYSTEM_RANDOM, RandomBytes, Secret, Unprintable

CHUNK_BYTES: Final = 128 * 1024
"""Zeros, keystream and accumulator of this size stay in the second-level cache together."""

_ZEROS: Final = memoryview(bytes(CHUNK_BYTES))
_ZERO_NONCE: Final = bytes(16)


@final
class Room:
    """A contiguous array of at most `CHUNK_BYTES` that many keystreams are written to in turn."""

    __slots__ = ("raw", "zeros")

    def __init__(self, words: NDArray[Any]) -> None:
        self.raw = words.view(np.uint8).data
        self.zeros = _ZEROS[: words.nbytes]


@final
class Keystream(Unprintable):
    """AES-256-CTR(key, nonce 0) over zeros, read from the front (NIST SP 800-38A, 6.5).

    The nonce may be zero because a key serves one stream: mask keys are derived for one use, and
    seeds for noise are drawn afresh.
    """

    __slots__ = ("_encryptor",)

    def __init__(self, key: Secret) -> None:
        self._encryptor = Cipher(AES(key.reveal()), CTR(_ZERO_NONCE)).encryptor()

    @classmethod
    def fresh(cls, random_bytes: RandomBytes = SYSTEM_RANDOM) -> Keystream:
        """Return a keystream under a new key."""
        return cls(Secret.fresh(random_bytes))

    def fill_room(self, room: Room) -> None:
        """Overwrite the room with the next bytes."""
        self._encryptor.update_into(room.zeros, room.raw)

    def read(self, num_bytes: int) -> bytes:
        """The next bytes; `Keystream(seed).read` is a `RandomBytes`."""
        return self._encryptor.update(bytes(num_bytes))
