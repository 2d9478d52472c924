"""Scales: from values to places on the drawing, and the round numbers beside an axis."""

from __future__ import annotations

import math
from dataclasses import dataclass

# The width of a digit at the charts' font size.
CHARACTER = 6.2


@dataclass(frozen=True)
class Scale:
    """Linear, from [low, high] to [start, end]; a single value lies in the middle."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        if self.high == self.low:
            return (self.start + self.end) / 2
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def ticks(low: float, high: float, wanted: int = 5, whole: bool = False) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten that cover [low, high], about `wanted` many."""
    if high <= low:
        pad = abs(low) / 2 or 0.5
        low, high = low - pad if low < 0 or not whole else low, high + pad
    step = _step((high - low) / max(wanted - 1, 1))
    step = max(step, 1.0) if whole else step
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def _step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.75)


def text_width(texts: list[str]) -> float:
    return CHARACTER * max((len(text) for text in texts), default=0)


def every(count: int, room: float, needed: float) -> int:
    """Label every n-th of `count` places, so that labels of `needed` pixels fit in `room`."""
    return max(1, math.ceil(count * needed / room)) if count else 1
