"""Three transforms with torchvision's names and values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class Compose:
    """Apply transforms one after another."""

    transforms: Sequence[Callable[[Any], Any]]

    def __call__(self, image: Any) -> Any:
        for transform in self.transforms:
            image = transform(image)
        return image


class ToTensor:
    """Turn pixels of 0 to 255, channels last, into a tensor of 0 to 1, channels first."""

    def __call__(self, image: NDArray[np.uint8]) -> Tensor:
        return torch.from_numpy(np.asarray(image)).permute(2, 0, 1).float() / 255


@dataclass(frozen=True)
class Normalize:
    """Subtract a mean and divide by a deviation, channel by channel."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, image: Tensor) -> Tensor:
        mean, std = (torch.tensor(x).reshape(-1, 1, 1) for x in (self.mean, self.std))
        return (image - mean) / std
