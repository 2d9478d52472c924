"""Secrets that do not show themselves, and the seam through which randomness comes in."""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable
from typing import Final, NoReturn, SupportsIndex, final

RandomBytes = Callable[[int], bytes]
"""`random_bytes(n)` gives n bytes; the system's CSPRNG unless a test vector asks otherwise."""

SYSTEM_RANDOM: Final[RandomBytes] = os.urandom
SECRET_BYTES: Final = 32


class Unprintable:
    """Base of values that repr, str, format, pickle and copy must never lay open."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, hidden>"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(f"{type(self).__name__} is secret and cannot be pickled or copied")


@final
class Secret(Unprintable):
    """32 secret bytes, all 256 bits of them; `reveal()` is the one way to them.

    Equality takes the same time wherever two secrets differ. A secret has no hash, so that it
    cannot become a key of a dictionary that somebody prints.
    """

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        if len(value) != SECRET_BYTES:
            raise ValueError(f"a secret has {SECRET_BYTES} bytes, got {len(value)}")
        self._value = bytes(value)

    @classmethod
    def fresh(cls, random_bytes: RandomBytes = SYSTEM_RANDOM) -> Secret:
        """Return 32 new random bytes as a secret."""
        return cls(random_bytes(SECRET_BYTES))

    def reveal(self) -> bytes:
        """Return the secret's bytes; the only way to them."""
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value, other._value)

    __hash__ = None  # type: ignore[assignment]
