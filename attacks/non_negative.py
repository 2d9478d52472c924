"""Non-negative least squares that always answers, and in bounded time."""

from __future__ import annotations

import numpy as np

from attacks.base import Array

PATIENCE = 8
"""Steps per equation. Sparse rows of consistent equations take fewer; noise makes them many."""


def non_negative(design: Array, right: Array, patience: int = PATIENCE) -> Array:
    """argmin_x>=0 |design x - right|; where the search wanders, the positive part of the
    minimum-norm solution, which ranks entries as well as noise allows."""
    from scipy.optimize import nnls  # a third of a second that other attacks need not pay

    try:
        found: Array = nnls(design, right, maxiter=max(1, patience * len(right)))[0]
    except RuntimeError:
        found = np.maximum(np.linalg.lstsq(design, right, rcond=1e-3)[0], 0)
    return found
