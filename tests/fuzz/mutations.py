"""Mutated inputs, how many of them, and the limits within which each must be answered.

SECUREFG_FUZZ=long makes the counts those of `make fuzz`: 10^5 inputs in all.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from securefg.foundation.errors import SecurefgError
from tests.fuzz.watching import watched

LONG = os.environ.get("SECUREFG_FUZZ") == "long"
SECONDS = 10
MOST_KIB = 2**20
NUMBERS = (b"9" * 30, b"-1", b"nan", b"1e400")
PARTS = (b"\x00", b"\xff" * 8, b"[[[[", b"{", b"\n", b"&a *a", b'"', *NUMBERS)


class Hang(BaseException):
    """An input was not answered in time."""


def mutated(data: bytes, seed: int) -> bytes:
    """Flips, cuts, copies and insertions; the same for the same seed."""
    draws, changed_bytes = random.Random(seed), bytearray(data)
    for _ in range(draws.choice((1, 1, 2, 8))):
        place = draws.randrange(len(changed_bytes) + 1)
        match draws.randrange(6):
            case 0 if place < len(changed_bytes):
                changed_bytes[place] ^= 1 << draws.randrange(8)
            case 1 if place < len(changed_bytes):
                changed_bytes[place] = draws.randrange(256)
            case 2:
                del changed_bytes[place : place + draws.randrange(1, 40)]
            case 3:
                changed_bytes[place:place] = draws.choice(PARTS)
            case 4:
                start = draws.randrange(len(changed_bytes) + 1)
                changed_bytes[place:place] = changed_bytes[start : start + draws.randrange(1, 60)]
            case _:
                del changed_bytes[place:]
    return bytes(changed_bytes)


def many(short: int, long: int) -> Callable[[Any], Any]:
    """Run a test for seeds: few in the ordinary suite, many in the long mode."""
    unhealthy = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]

    def made(test: Any) -> Any:
        found = given(seed=st.integers(0, 2**63))(test)
        count = long if LONG else short
        return settings(max_examples=count, suppress_health_check=unhealthy, database=None)(found)

    return made


@contextmanager
def answered(inside: Path | None = None) -> Iterator[None]:
    """Soon, in little memory, by an error that was raised on purpose or by none.

    inside  the one folder that may be written to; nothing is run and nobody is called at all
    """

    def late(number: int, frame: FrameType | None) -> None:
        raise Hang(f"no answer within {SECONDS} s")

    message_text, before = "", most_memory()
    earlier = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings(), watched(inside) as touched:
            warnings.simplefilter("ignore")
            yield
    except SecurefgError as error:
        message_text = str(error)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, earlier)
    assert touched == [], touched
    assert len(message_text) < 1500, message_text[:200]
    assert most_memory() - before < MOST_KIB


def most_memory() -> int:
    """In KiB, so far: what other tests of the process took before is no input's doing."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
