"""Randomness of tests: of each its own, and the same at every run.

A law that is tested at 95 % fails in one of twenty honest runs; among thousands of tests some
always would. So the system's random bytes, from which all noise and all keys come, are drawn in a
test from a stream of that test's name. They are as good as any, and a test that passes once passes
again until the code changes. Children of the tests' process draw the system's own: two of them must
never have the same noise.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SYSTEM = os.urandom


class Drawn:
    """In place of `os.urandom`: bytes of a stream, in the process that it began in."""

    def __init__(self, name: str) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.ciphers.modes import CTR

        self._process = os.getpid()
        key = hashlib.sha256(name.encode()).digest()
        self._stream = Cipher(AES(key), CTR(bytes(16))).encryptor()

    def __call__(self, num_bytes: int) -> bytes:
        if os.getpid() != self._process:
            return SYSTEM(num_bytes)
        return self._stream.update(bytes(num_bytes))


class Source:
    """`os.urandom` while tests run, and the system's own until `begin`. Modules keep it under names
    of their own, so it stays, and the stream behind it changes. This file is imported before any
    such module, also by a process that only hands out tests, so it imports little."""

    def __init__(self) -> None:
        self._stream: Callable[[int], bytes] = SYSTEM

    def __call__(self, num_bytes: int) -> bytes:
        return self._stream(num_bytes)

    def begin(self, name: str) -> None:
        """All that is drawn from now on follows from this name."""
        import numpy as np
        import torch

        self._stream = Drawn(name)
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4])
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)

    @contextmanager
    def within(self, name: str) -> Iterator[None]:
        """A stream for what tests share, which any of them may happen to make."""
        outer = self._stream
        self._stream = Drawn(name)
        try:
            yield
        finally:
            self._stream = outer
