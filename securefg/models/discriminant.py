"""Linear heads from noisy sums, and class scores of features from noisy class sums.

All read sums alone, so whatever they give is as private as the sums. `noise` is the standard
deviation of the noise on every entry, which is public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

PSEUDO_COUNT: Final = 6.0
"""How many standard deviations of noise a feature's total must pass before its rates count."""

LEAST_NOISE: Final = 0.3
"""Sums without noise are smoothed as if they had this much: class rates of rare words overfit."""

RIDGE: Final = 1.0

CLEAR: Final = 10.0
"""From this ratio of signal to noise on the discriminant is as good as regression; below, worse:
covariances within classes are what noise spoils first (benchmarks/private_trials.py)."""


@dataclass(frozen=True)
class Moments:
    """A pair of sums: second = sum phi phi^T, (m, m), and by_class = sum phi y^T, (m, C). The last
    entry of phi is a constant, which makes the last row of `by_class` its class counts."""

    second: Tensor
    by_class: Tensor

    def plus(self, other: Moments, weight: float) -> Moments:
        """Add the weighted moments of another set."""
        return Moments(self.second + weight * other.second, self.by_class + weight * other.by_class)


def class_scores(sums: Tensor, noise: float, rates: bool) -> Tensor:
    """Return from M = sum x y^T (d, C) a weight per feature and class, so that P^T x scores the
    classes.

    With T_j = sum_c M_jc and prior pi_c, the centred row is M_j - pi T_j. It shrinks to zero as its
    noise grows (James and Stein: 1 - (C-1) noise^2 / |row|^2), and `rates` divides it by T_j and a
    pseudo-count: how much likelier a class is where the feature is one. P is scaled so that the
    features in use have length one in the mean.
    """
    num_classes = sums.shape[1]
    total = sums.sum(1, keepdim=True)
    prior = sums.sum(0).clamp_min(1e-9)
    centred = sums - total * prior / prior.sum()
    size = centred.square().sum(1, keepdim=True)
    kept = (1 - (num_classes - 1) * noise**2 / size.clamp_min(1e-12)).clamp_min(0)
    used = total.clamp_min(0) if rates else torch.ones_like(total)
    weights = kept * centred
    if rates:
        smoothing = PSEUDO_COUNT * max(noise, LEAST_NOISE) * math.sqrt(num_classes)
        weights = weights / (used + smoothing)
    mean_square = (used * weights.square()).sum() / used.sum().clamp_min(1e-9)
    scaled: Tensor = weights / mean_square.sqrt().clamp_min(1e-9)
    return scaled


def solve_discriminant(
    moments: Moments, constant: float, noise: float, ridge: float = RIDGE
) -> tuple[Tensor, Tensor]:
    """Return weights (m, C) and offsets (C,) of w_c = S^-1 mu_c, b_c = -mu_c . w_c / 2 + log pi_c.

    S = (A - sum n_c mu_c mu_c^T + lambda I) / n, made positive first. lambda grows with the largest
    eigenvalue that noise alone has, noise sqrt(m).
    """
    dim = len(moments.second)
    counts = (moments.by_class[-1] / constant).clamp_min(1.0)
    means = moments.by_class / counts
    within = _nearest_positive(moments.second - (means * counts) @ means.T)
    lam = ridge * (noise * math.sqrt(dim) + 1)
    within = (within + lam * torch.eye(dim, dtype=within.dtype)) / counts.sum()
    weights = torch.linalg.solve(within, means)
    offsets = -(means * weights).sum(0) / 2 + (counts / counts.sum()).log()
    return weights, offsets


def solve_regression(moments: Moments, noise: float) -> tuple[Tensor, Tensor]:
    """Return ridge regression of the labels: W = C (A + lambda I)^-1 B, no offsets, lambda as twice
    the largest eigenvalue that noise alone has. C classes make a score of 1/C chance."""
    dim, num_classes = moments.by_class.shape
    lam = 2 * noise * math.sqrt(dim) + 1
    second = _nearest_positive(moments.second) + lam * torch.eye(dim, dtype=moments.second.dtype)
    weights = num_classes * torch.linalg.solve(second, moments.by_class)
    return weights, torch.zeros(num_classes, dtype=weights.dtype)


def is_clear(moments: Moments, constant: float, noise: float) -> bool:
    """Return whether n nodes, spread over all numbers, stand `CLEAR` times above the noise on
    each."""
    dim, num_classes = moments.by_class.shape
    numbers = dim * (dim + 1) / 2 + dim * num_classes
    nodes = float(moments.by_class[-1].sum()) / constant
    return nodes / math.sqrt(numbers) >= CLEAR * noise


def solve_head(
    moments: Moments, constant: float, noise: float, clear: bool
) -> tuple[Tensor, Tensor]:
    """Return the discriminant where sums are clear of their noise, else regression."""
    return (
        solve_discriminant(moments, constant, noise) if clear else solve_regression(moments, noise)
    )


def _nearest_positive(matrix: Tensor) -> Tensor:
    """Return the nearest positive semi-definite matrix: negative eigenvalues are noise."""
    values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)
    found: Tensor = (vectors * values.clamp_min(0)) @ vectors.T
    return found
