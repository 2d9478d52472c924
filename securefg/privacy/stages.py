"""The stages of a release as pure functions over batches whose first axis is the client."""

from __future__ import annotations

import torch
from torch import Tensor

from securefg.protocol.arrays import all_finite
from securefg.settings.privacy import Adjacency, Per


def clip_l2(values: Tensor, bound: float, per: Per) -> Tensor:
    """Scale down to at most `bound` in L2: each client's message, or each row of its array.

    x * min(1, bound / |x|_2), in float64 so that rounding cannot carry a norm over the bound. NaN
    and infinities count as 0: an error before the noise would tell of the data.
    """
    exact = values.double()
    if not all_finite(exact):
        exact = exact.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    axes = tuple(range(1, exact.dim())) if per == "message" or exact.dim() == 1 else (-1,)
    norms = torch.linalg.vector_norm(exact, dim=axes, keepdim=True) if axes else exact.abs()
    return exact * (bound / norms.clamp_min(bound))


def sensitivity_l2(bound: float, adjacency: Adjacency) -> float:
    """Return how far a clipped unit can move: 2C where its value is replaced, C where it is zeroed
    out."""
    return 2.0 * bound if adjacency == "replace_one" else bound
