"""How sure models are of labels, from their logits, on a scale that models share."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[np.float64]


def log_confidence(logits: NDArray[np.floating], labels: NDArray[np.int64]) -> Array:
    """Return log p_y, over any leading axes: minus the cross-entropy."""
    rows = torch.from_numpy(np.asarray(logits, np.float64))
    own = rows[..., torch.arange(len(labels)), torch.from_numpy(labels)]
    found: Array = (own - rows.logsumexp(-1)).numpy()
    return found


def scaled_confidence(logits: NDArray[np.floating], labels: NDArray[np.int64]) -> Array:
    """Return log p_y - log sum_{c != y} p_c: over models close to normal (Carlini et al. 2022)."""
    rows = torch.from_numpy(np.array(logits, np.float64))
    place = torch.arange(len(labels)), torch.from_numpy(labels)
    own = rows[..., place[0], place[1]]
    rows[..., place[0], place[1]] = -torch.inf  # the others stay
    found: Array = (own - rows.logsumexp(-1)).numpy()
    return found


def standardise_confidences(confidence: Array) -> Array:
    """Return every model's confidences over the targets, on the scale of their own quartiles.

    A model that trained longer, or an average of many, is surer of everything. Half the targets are
    members for the target model and for every shadow, so their quartiles can be compared.
    """
    low, middle, high = np.quantile(confidence, [0.25, 0.5, 0.75], axis=-1, keepdims=True)
    found: Array = (confidence - middle) / np.maximum(high - low, 1e-9)
    return found
