"""The network, the data of a site, training and testing: plain PyTorch, nothing of securefg."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

SITES = 10
TEST_SHARE = 0.2


class Net(nn.Module):
    """Two convolutions with batch normalisation, and two dense layers: 8x8 pixels, ten digits."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.fc1 = nn.Linear(16 * 2 * 2, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(torch.relu(self.norm(self.conv1(x))), 2)
        x = functional.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


def first_model() -> OrderedDict[str, Tensor]:
    torch.manual_seed(1)
    return OrderedDict(Net().state_dict())


def load_all() -> tuple[Tensor, Tensor, np.ndarray]:
    """All images in [0, 1], their digits, and a fixed random order."""
    images, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(digits))
    x = torch.from_numpy(images / 16).float().reshape(-1, 1, 8, 8)
    return x, torch.from_numpy(digits), order


def load_site(site: int, sites: int = SITES) -> tuple[Tensor, Tensor]:
    """A site's training data: half of it at random, half by digit, so that sites differ."""
    x, y, order = load_all()
    train = order[int(TEST_SHARE * len(order)) :]
    mixed, sorted_part = np.array_split(train, 2)
    by_digit = sorted_part[np.argsort(y[sorted_part].numpy(), kind="stable")]
    own = np.concatenate(
        [np.array_split(mixed, sites)[site], np.array_split(by_digit, sites)[site]]
    )
    return x[own], y[own]


def load_test() -> tuple[Tensor, Tensor]:
    x, y, order = load_all()
    test = order[: int(TEST_SHARE * len(order))]
    return x[test], y[test]


def train(net: Net, x: Tensor, y: Tensor, epochs: int, lr: float, batch: int) -> float:
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    net.train()
    total = 0.0
    for _ in range(epochs):
        for part in torch.randperm(len(y)).split(batch):
            optimizer.zero_grad()
            loss = functional.cross_entropy(net(x[part]), y[part])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(part)
    return total / (epochs * len(y))


@torch.no_grad()
def test(net: Net, x: Tensor, y: Tensor) -> tuple[float, float]:
    net.eval()
    scores = net(x)
    accuracy = (scores.argmax(1) == y).float().mean().item()
    return functional.cross_entropy(scores, y).item(), accuracy
