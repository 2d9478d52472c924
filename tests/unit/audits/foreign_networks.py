"""Small networks of another framework, as an auditor names them, and recordings of their training.

--network tests.unit.audits.foreign_networks:Convolutions
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import securefg

HERE = "tests.unit.audits.foreign_networks"
LR = 0.2


class Convolutions(nn.Module):
    """A convolution with batch norm, as in evaluation, and a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.out = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.relu(self.norm(self.conv(x))).flatten(1))  # type: ignore[no-any-return]


class Blind(Convolutions):
    """The same weights in a network that sees nothing."""

    def forward(self, x: Tensor) -> Tensor:
        return 0 * super().forward(x)


class Words(nn.Module):
    """Tokens, embedded and added up."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(17, 8)
        self.out = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.embed(x).mean(1))  # type: ignore[no-any-return]


def draw_digits(clients: int, each: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return digits of every client and, last, of none."""
    flat, labels = load_digits(return_X_y=True)
    images = (flat / 16).reshape(-1, 1, 8, 8).astype(np.float32)
    parts = [slice(each * k, each * (k + 1)) for k in range(clients + 1)]
    return [(images[part], labels[part]) for part in parts]


def write_record(
    path: Path,
    net: nn.Module,
    data: list[tuple[np.ndarray, np.ndarray]],
    *,
    sigma: float = 0.0,
    rounds: int = 1,
    **words: Any,
) -> None:
    """Record rounds of one full-batch step by clients with these data, the last of nobody."""
    *held, outside = data
    stream = torch.Generator().manual_seed(0)
    start = {name: value.clone() for name, value in net.state_dict().items()}
    with securefg.record(path, classes=10, optimizer="sgd", lr=LR, **words) as recording:
        for number in range(1, rounds + 1):
            recording.send(number, start, range(len(held)))
            uploads = []
            for client, (samples, labels) in enumerate(held):
                net.load_state_dict(start)
                net.eval()
                loss = cross_entropy(net(torch.from_numpy(samples)), torch.from_numpy(labels))
                slopes = torch.autograd.grad(loss, list(net.parameters()))
                moved = dict(zip(dict(net.named_parameters()), slopes, strict=True))
                trained = {
                    name: value - LR * moved[name] + sigma * draw_like(value, stream)
                    if name in moved
                    else value
                    for name, value in start.items()
                }
                recording.upload(client, number, trained, rule="gaussian" if sigma else "")
                uploads.append(trained)
            start = {
                name: torch.stack([upload[name].double() for upload in uploads])
                .mean(0)
                .to(value.dtype)
                for name, value in start.items()
            }
        samples_of = {client: samples for client, (samples, _) in enumerate(held)}
        labels_of = {client: labels for client, (_, labels) in enumerate(held)}
        recording.truth(samples_of, labels_of, held_out=outside)


def draw_like(value: Tensor, stream: torch.Generator) -> Tensor:
    """Return normal noise of this shape."""
    return torch.randn(value.shape, generator=stream)
