"""What a worker tells the pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from securefg.sweep.cache import Failure


@dataclass(frozen=True)
class At:
    """How far the point is; `rounds` is 0 until its first round is done."""

    round: int = 0
    rounds: int = 0


@dataclass(frozen=True)
class Ended:
    """The point is done, was done already, was interrupted, or failed."""

    how: Literal["done", "cached", "interrupted", "failed"]
    failure: Failure | None = None
