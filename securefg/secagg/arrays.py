"""Byte strings of one length as the rows of a tensor, and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def from_bytes(rows: Sequence[bytes]) -> Tensor:
    joined = np.frombuffer(bytearray(b"".join(rows)), np.uint8)
    return torch.from_numpy(joined.reshape(len(rows), -1))


def to_bytes(rows: Tensor) -> list[bytes]:
    return [row.tobytes() for row in rows.numpy()]
