"""The weights that users start with."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from securefg.foundation.streams import torch_stream, uniform_at
from securefg.models.user_weights import SparseFeatures

ROWS_AT_ONCE = 1 << 16


def shared_weights(num_features: int, width: int, seed: int) -> Tensor:
    """Return one Glorot-uniform matrix, which every host draws alike."""
    uniform = torch.rand(num_features, width, generator=torch_stream(seed, "weights"))
    return (2 * uniform - 1) * _glorot_bound(num_features, width)


def shared_rows(features: SparseFeatures, width: int, seed: int) -> Tensor:
    """Return the rows for the users' non-zero features of a matrix that all users share."""
    shared = shared_weights(features.num_columns, width, seed)
    return shared.to(features.values.device)[features.columns]


def private_rows(
    features: SparseFeatures, clients: NDArray[np.int64], width: int, seed: int
) -> Tensor:
    """Return rows of every user's own matrix, which lies at the user's own places of one stream."""
    owner = torch.from_numpy(clients)[features.owners.cpu()]
    row = owner * features.num_columns + features.columns.cpu()
    rows = torch.empty(len(row), width)
    for first in range(0, len(row), ROWS_AT_ONCE):
        some = slice(first, first + ROWS_AT_ONCE)
        places = row[some].numpy()[:, None] * width + np.arange(width)
        uniform = torch.from_numpy(uniform_at(places, seed, "weights"))
        rows[some] = (2 * uniform - 1) * _glorot_bound(features.num_columns, width)
    return rows.to(features.values.device)


def _glorot_bound(num_features: int, width: int) -> float:
    """Return Glorot's bound. The heads of a GAT are drawn as one wide matrix, as in its published
    code."""
    return float((6 / (num_features + width)) ** 0.5)
