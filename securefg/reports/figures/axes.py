"""Axes: linear, or logarithmic with a place of its own for zero and for infinity."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from securefg.reports.figures.canvas import CHARACTER, Scale, ticks

# How far zero and infinity lie from the rest of a logarithmic axis.
APART = 30.0
# The share of their span that values keep from the ends of a linear axis.
ROOM = 0.04


@dataclass(frozen=True)
class Axis:
    """Places along one side of a drawing.

    marks    (value, text) of what is written beside it
    breaks   places where the axis is cut: what lies beyond is zero or infinity
    """

    scale: Scale
    marks: tuple[tuple[float, str], ...]
    logarithmic: bool = False
    start: float = 0.0
    end: float = 1.0
    breaks: tuple[float, ...] = ()

    def __call__(self, value: float) -> float:
        """Values beyond the axis lie at its ends."""
        if self.logarithmic:
            if value <= 0:
                return self.start
            if math.isinf(value):
                return self.end
            value = math.log10(value)
        inside = min(max(value, self.scale.low), self.scale.high)
        return self.scale(inside)


def linear_axis(
    values: Iterable[float],
    start: float,
    end: float,
    text: Callable[[float], str],
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Axis:
    """Covers all values between round numbers, with some room at both ends, within `bounds`."""
    known = [min(max(value, bounds[0]), bounds[1]) for value in values] or [0.0, 1.0]
    room = ROOM * (max(known) - min(known))
    room = room or abs(known[0]) / 2 or 0.5  # around a single value
    low, high = max(min(known) - room, bounds[0]), min(max(known) + room, bounds[1])
    marks = ticks(low, high)
    scale = Scale(marks[0], marks[-1], start, end)
    return Axis(scale, tuple((mark, text(mark)) for mark in marks), start=start, end=end)


def log_axis(
    values: Iterable[float],
    start: float,
    end: float,
    text: Callable[[float], str],
    marks: Sequence[float] | None = None,
) -> Axis:
    """Zero and infinity lie apart, each only where a value is there.

    marks    written along the axis as far as they fit; not given: 1, 2 and 5 times powers of ten
    """
    known = list(values)
    finite = [value for value in known if 0 < value < math.inf] or [1.0]
    zero, infinite = any(v <= 0 for v in known), any(math.isinf(v) for v in known)
    towards = math.copysign(1.0, end - start)
    inner_start = start + towards * APART if zero else start
    inner_end = end - towards * APART if infinite else end
    chosen = list(marks) if marks is not None else decades(min(finite), max(finite))
    low, high = min([*finite, *chosen]), max([*finite, *chosen])
    pad = 0.06 * (math.log10(high / low) or 1.0)
    scale = Scale(math.log10(low) - pad, math.log10(high) + pad, inner_start, inner_end)
    axis = Axis(scale, (), True, start, end)
    written = [(v, text(v)) for v in _that_fit(sorted(set(chosen)), axis, text)]
    ends = [(0.0, "0")] if zero else []
    written = ends + written + ([(math.inf, "∞")] if infinite else [])
    breaks = ([(start + inner_start) / 2] if zero else []) + (
        [(inner_end + end) / 2] if infinite else []
    )
    return Axis(scale, tuple(written), True, start, end, tuple(breaks))


def decades(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten around [low, high]; powers alone where those are many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1.0,) if last - first > 3 else (1.0, 2.0, 5.0)
    every = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    below = max((v for v in every if v <= low), default=every[0])
    above = min((v for v in every if v >= high), default=every[-1])
    return [v for v in every if below <= v <= above]


def _that_fit(values: list[float], axis: Axis, text: Callable[[float], str]) -> list[float]:
    """From the first on, those whose text does not touch the one before."""
    chosen: list[float] = []
    for value in values:
        width = CHARACTER * len(text(value)) + 4
        if not chosen or abs(axis(value) - axis(chosen[-1])) >= width:
            chosen.append(value)
    return chosen
