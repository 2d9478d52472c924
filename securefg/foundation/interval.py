"""A value with its interval: the one type for whatever is estimated."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from securefg.foundation.settings import Settings


class Interval(Settings):
    """An estimate with both ends of its interval, at 95 % unless the confidence says otherwise."""

    value: float
    low: float
    high: float
    confidence: float = 0.95

    def shifted(self, by: float) -> Interval:
        """Return the same spread around another value."""
        return Interval(
            value=self.value + by,
            low=self.low + by,
            high=self.high + by,
            confidence=self.confidence,
        )


def interval(values: Sequence[float]) -> Interval:
    """Return the mean with Student's 95 % interval. For one value, return the value."""
    from scipy.special import stdtrit  # an import that reading a config need not pay for

    mean = statistics.fmean(values)
    if len(values) < 2:
        return Interval(value=mean, low=mean, high=mean)
    reach = float(stdtrit(len(values) - 1, 0.975)) * statistics.stdev(values)
    reach /= len(values) ** 0.5
    return Interval(value=mean, low=mean - reach, high=mean + reach)
