"""The network of NVIDIA FLARE's hello-pt, and scikit-learn's digits in place of CIFAR-10.

The 8x8 images are enlarged to 32x32 pixels in three equal channels. A fifth is held by no site.
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

HELD_OUT = 0.2


class SimpleNetwork(nn.Module):
    """Two convolutions and three dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(functional.relu(self.conv1(x)))
        x = self.pool(functional.relu(self.conv2(x)))
        x = functional.relu(self.fc1(torch.flatten(x, 1)))
        return self.fc3(functional.relu(self.fc2(x)))  # type: ignore[no-any-return]


def load_part(site: int | None, sites: int) -> tuple[Tensor, Tensor]:
    """Return the images and labels of a site, or those that no site holds."""
    flat, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    rest, held = np.split(order, [int(HELD_OUT * len(labels))])
    rows = rest if site is None else np.array_split(held, sites)[site]
    small = torch.tensor(flat[rows], dtype=torch.float32).reshape(-1, 1, 8, 8) / 8 - 1
    large = functional.interpolate(small, size=(32, 32)).repeat(1, 3, 1, 1)
    return large, torch.tensor(labels[rows])


def score_network(net: nn.Module, sites: int) -> float:
    """Return the accuracy on data that no site holds."""
    images, labels = load_part(None, sites)
    with torch.no_grad():
        return float((net(images).argmax(1) == labels).float().mean())
