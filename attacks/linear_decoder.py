"""The best linear guess of a node's features from its upload, learnt from known nodes.

Ridge regression by one singular value decomposition; the ridge is chosen by generalised
cross-validation (Golub, Heath and Wahba 1979) among values up to infinity, at which every guess is
the mean of the known features: what noise hides is not decoded.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array

RIDGES = 10.0 ** np.arange(-2, 9)


def ridge_decoded(known: Array, features: Array, wanted: Array) -> Array:
    """Guesses of the features behind `wanted`, from pairs of `known` rows and their features."""
    mean, centre = features.mean(0), known.mean(0)
    left, size, right = np.linalg.svd(known - centre, full_matrices=False)
    targets = left.T @ (features - mean)
    shrink = size**2 / (size**2 + _ridge(left, size, features - mean, targets))
    coefficients = (shrink / np.maximum(size, 1e-12))[:, None] * targets
    found: Array = mean + (wanted - centre) @ right.T @ coefficients
    return found


def _ridge(left: Array, size: Array, features: Array, targets: Array) -> float:
    """argmin of |residual|^2 / (n - degrees of freedom)^2."""
    whole, explained = float((features**2).sum()), (targets**2).sum(1)

    def score(ridge: float) -> float:
        shrink = size**2 / (size**2 + ridge)
        residual = whole - float(((1 - (1 - shrink) ** 2) * explained).sum())
        return residual / (len(left) - 1 - float(shrink.sum())) ** 2

    scale = max(float((size**2).mean()), 1e-300)
    return min((float(ridge * scale) for ridge in RIDGES), key=score)
