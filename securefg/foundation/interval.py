"""A value with its interval: the one type for whatever is estimated."""

from __future__ import annotations

from securefg.foundation.settings import Settings


class Interval(Settings):
    """An estimate with both ends of its interval, at 95 % unless the confidence says otherwise."""

    value: float
    low: float
    high: float
    confidence: float = 0.95

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0

    def shifted(self, by: float) -> Interval:
        """The same spread around another value."""
        return Interval(
            value=self.value + by,
            low=self.low + by,
            high=self.high + by,
            confidence=self.confidence,
        )
