"""OpenFGL's DP with plain SGD, for which its noise is meant (`defences.openfgl_dp` is Adam).

PYTHONPATH=openfgl securefg audit mechanism defences.openfgl_dp_sgd
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from defences.openfgl_dp import CLAIM, release_by

__all__ = ["CLAIM", "release"]


def release(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return release_by(torch.optim.SGD, values)
