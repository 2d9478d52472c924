"""What samples tell of membership by themselves, without any message.

Members and others may differ in their distribution, because clients collect unlike data, or because
others were collected later. A classifier of the samples then tells them apart, whatever was
trained on (Das et al. 2024). A gain of an attack may then be of the distribution alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array

RIDGE = 1.0


def likeness_scores(
    samples: NDArray[np.float32],
    labels: NDArray[np.int64],
    clients: NDArray[np.int64],
    is_member: NDArray[np.bool_],
) -> Array:
    """Return for every sample how much more it is like its client's members than like others.

    Each sample is left out of the fit that scores it: kernel ridge regression, by client. The fit
    knows the truth of all other samples, so that it bounds what somebody without the run can tell.
    """
    scores = np.zeros(len(labels))
    for client in np.unique(clients):
        own = np.flatnonzero(clients == client)
        kernel = _kernel_of(samples[own].reshape(len(own), -1).astype(np.float64), labels[own])
        scores[own] = _left_out_fit(kernel, np.where(is_member[own], 1.0, -1.0))
    return scores


def _kernel_of(rows: Array, labels: NDArray[np.int64]) -> Array:
    """Return Gaussian similarities at the median distance, twice as large within a class."""
    rows = (rows - rows.mean(0)) / np.maximum(rows.std(0), 1e-12)
    squares = (rows**2).sum(1)
    distances = np.maximum(squares[:, None] + squares - 2 * rows @ rows.T, 0.0)
    width = max(float(np.median(distances)), 1e-12)
    found: Array = np.exp(-distances / width) * (1 + (labels[:, None] == labels))
    return found


def _left_out_fit(kernel: Array, truth: Array) -> Array:
    """Return the prediction for each row of a ridge regression on all other rows."""
    inverse = np.linalg.inv(kernel + RIDGE * np.eye(len(kernel)))
    found: Array = truth - (inverse @ truth) / np.diagonal(inverse)
    return found
