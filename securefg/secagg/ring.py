"""The ring Z_2^32 or Z_2^64 in which uploads are added, read as signed numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from securefg.foundation.errors import ConfigError

RingArray = NDArray[np.uint32] | NDArray[np.uint64]
Integers = NDArray[np.signedinteger[Any]]

_DTYPES: Final[dict[int, np.dtype[Any]]] = {32: np.dtype("<u4"), 64: np.dtype("<u8")}


@dataclass(frozen=True)
class Ring:
    """Z_2^bits; the upper half stands for the negative numbers, as in two's complement."""

    bits: int = 32

    def __post_init__(self) -> None:
        if self.bits not in _DTYPES:
            raise ConfigError(f"ring bits: found {self.bits}, wanted one of {sorted(_DTYPES)}")

    @property
    def dtype(self) -> np.dtype[Any]:
        return _DTYPES[self.bits]

    @property
    def largest(self) -> int:
        """The largest number whose sign survives: 2^(bits-1) - 1."""
        return (1 << (self.bits - 1)) - 1

    def from_signed(self, values: Integers) -> RingArray:
        """Refuses a value that is outside the ring; it never wraps one."""
        if values.size and (
            int(values.max()) > self.largest or int(values.min()) < -self.largest - 1
        ):
            raise ConfigError(f"a value lies outside the signed {self.bits}-bit ring")
        unsigned: RingArray = values.astype(self.dtype)
        return unsigned

    def to_signed(self, values: RingArray) -> NDArray[np.int64]:
        signed = values.view(np.dtype(f"<i{self.bits // 8}"))
        return signed.astype(np.int64)
