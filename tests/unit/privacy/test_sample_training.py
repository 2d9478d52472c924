"""One call that trains any PyTorch network under per-sample noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import securefg
from securefg.foundation.errors import ConfigError

PLAN: dict[str, Any] = {"clip": 1.0, "noise": 0.5, "batch": 100, "steps": 60, "lr": 2.0}


def digits() -> tuple[Tensor, Tensor]:
    flat, labels = load_digits(return_X_y=True)
    return torch.tensor(flat / 16, dtype=torch.float32), torch.tensor(labels)


def accuracy(network: nn.Module, samples: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        return float((network(samples).argmax(1) == labels).float().mean())


def test_private_training_learns_digits() -> None:
    torch.manual_seed(0)
    samples, labels = digits()
    network = nn.Sequential(nn.Linear(64, 10))
    securefg.train_privately(network, samples[:1500], labels[:1500], **PLAN)
    assert accuracy(network, samples[1500:], labels[1500:]) > 0.7


def test_private_training_moves_by_the_clip_and_the_noise() -> None:
    """With all samples in every step, a step is lr / batch (clipped sum + noise)."""
    samples, labels = torch.zeros(50, 30), torch.zeros(50, dtype=torch.long)
    network = nn.Linear(30, 2, bias=False)
    start = network.weight.detach().clone()
    plan = {**PLAN, "batch": 50, "noise": 7.0, "steps": 1, "lr": 1.0}
    moves = []
    for _ in range(60):
        with torch.no_grad():
            network.weight.copy_(start)
        securefg.train_privately(network, samples, labels, **plan)
        moves.append((network.weight.detach() - start).numpy())
    assert np.std(moves) == pytest.approx(7.0 / 50, rel=0.05)  # zeros have no gradient


def test_private_training_clips_a_loud_sample() -> None:
    samples = torch.cat([torch.full((1, 4), 1e6), torch.zeros(9, 4)])
    network = nn.Linear(4, 2, bias=False)
    nn.init.zeros_(network.weight)
    start = network.weight.detach().clone()
    plan = {**PLAN, "batch": 10, "noise": 1e-6, "steps": 1, "lr": 10.0}
    securefg.train_privately(network, samples, torch.zeros(10, dtype=torch.long), **plan)
    assert float((network.weight.detach() - start).norm()) == pytest.approx(1.0, abs=1e-3)


def test_private_training_draws_anew_in_every_call() -> None:
    samples, labels = digits()
    ends = []
    for _ in range(2):
        torch.manual_seed(0)
        network = nn.Linear(64, 10)
        securefg.train_privately(network, samples[:50], labels[:50], **{**PLAN, "batch": 5})
        ends.append(network.weight.detach())
    assert not torch.equal(*ends)


def test_private_training_reads_tokens_and_keeps_modes() -> None:
    network = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Dropout(0.5), nn.Linear(12, 3))
    network.eval()
    tokens, labels = torch.randint(9, (20, 3)), torch.randint(3, (20,))
    securefg.train_privately(network, tokens, labels, **{**PLAN, "batch": 4, "steps": 2})
    assert not any(part.training for part in network.modules())
    assert all(parameter.grad is None for parameter in network.parameters())


class Mixing(nn.Module):
    """A network in which every sample reads the mean of all."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x - x.mean(0))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "network",
    [Mixing(), nn.Sequential(nn.Linear(64, 10), nn.BatchNorm1d(10))],
    ids=["mixing", "batch norm"],
)
def test_private_training_refuses_networks_that_mix_samples(network: nn.Module) -> None:
    samples, labels = digits()
    with pytest.raises(ConfigError, match="refuse"):
        securefg.train_privately(network, samples[:50], labels[:50], **{**PLAN, "batch": 5})


@pytest.mark.parametrize(
    ("change", "key"),
    [({"batch": 51}, "batch"), ({"noise": 0.0}, "noise"), ({"steps": 0}, "num_steps")],
)
def test_private_training_refuses_wrong_settings(change: dict[str, Any], key: str) -> None:
    samples, labels = digits()
    with pytest.raises(ConfigError, match=key):
        securefg.train_privately(
            nn.Linear(64, 10), samples[:50], labels[:50], **{**PLAN, "batch": 5, **change}
        )
