"""Roots of functions; scipy.optimize is loaded by those who look for one, and by no one else."""

from __future__ import annotations

from collections.abc import Callable


def root_between(of: Callable[[float], float], low: float, high: float, xtol: float) -> float:
    """Where `of` is zero; it must have different signs at the two ends (Brent 1973)."""
    from scipy.optimize import brentq  # a third of a second that most commands need not pay

    return float(brentq(of, low, high, xtol=xtol))
