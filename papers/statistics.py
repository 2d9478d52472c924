"""Means with their intervals over seeds, and what may be said of them beside a paper's figure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds; `half_width` of its 95 % interval is None for a single seed."""

    mean: float
    half_width: float | None
    count: int


def estimate(values: Sequence[float]) -> Estimate:
    """mean ± t_{.975, n-1} s / sqrt n (Student's interval)."""
    count, mean = len(values), statistics.fmean(values)
    if count < 2:
        return Estimate(mean, None, count)
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1))
    return Estimate(mean, quantile * statistics.stdev(values) / math.sqrt(count), count)


def verdict(
    ours: Estimate, paper: float, interval: float | None, tolerance: float, close: str
) -> str:
    """Ours against the paper's: inside its interval, else close by, else above or below it, with a
    word where the intervals meet all the same.

    Rounding errors of a difference of exactly the tolerance do not count.
    """
    difference = round(ours.mean - paper, 9)
    if interval is not None and abs(difference) <= interval:
        return "within the paper's interval"
    if abs(difference) <= tolerance:
        return close
    side = "above" if difference > 0 else "below"
    if ours.half_width is None or abs(difference) > ours.half_width + (interval or 0.0):
        return side
    return f"{side}, within our interval" if interval is None else f"{side}, intervals meet"
