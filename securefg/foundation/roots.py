"""Roots of functions. Only those who look for a root load scipy.optimize."""

from __future__ import annotations

from collections.abc import Callable


def root_between(of: Callable[[float], float], low: float, high: float, xtol: float) -> float:
    """Return where `of` is zero. It must have different signs at the two ends (Brent 1973)."""
    from scipy.optimize import brentq  # a third of a second that most commands need not pay

    return float(brentq(of, low, high, xtol=xtol))
