"""Arrays of every kind that a message can hold."""

from __future__ import annotations

import torch
from torch import Tensor


def made(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
    """Random bytes seen as `dtype`, so that NaN, infinity and the smallest numbers occur."""
    stream = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(shape, generator=stream) < 0.5
    size = torch.empty(shape, dtype=dtype).numel() * dtype.itemsize
    raw = torch.randint(0, 256, (size,), generator=stream, dtype=torch.uint8)
    return raw.view(dtype).reshape(shape)
