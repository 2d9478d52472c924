"""Private training of single samples for any PyTorch job: one call in place of its own loop.

    securefg.train_privately(
        network, samples, labels, clip=1.0, noise=1.0, batch=64, steps=20, lr=0.5
    )

Protects one sample of a client, against everybody who sees the weights. `compute_epsilon` with the
same `clip`, `noise`, `batch` and `steps` says how well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from securefg.foundation.errors import ConfigError
from securefg.privacy.defence import find_defence
from securefg.privacy.noise import SystemNoise
from securefg.privacy.private_training import (
    PrivateTraining,
    TrainingPlan,
    refuse_where_samples_share_neighbours,
)
from securefg.protocol.codec import Clients
from securefg.settings.privacy import SAMPLE_DEFENCE

PROBED = 8
"""So many samples are tried before the training, to see whether each has a gradient of its own."""


def train_privately(
    network: nn.Module,
    samples: Tensor,
    labels: Tensor,
    *,
    clip: float,
    noise: float,
    batch: int,
    steps: int,
    lr: float,
) -> None:
    """Train a network in place by noisy steps of gradient descent on one client's samples.

    Every step draws each sample by itself with probability batch / samples, clips its gradient and
    adds noise to the sum. Samples and noise are drawn from the system. The number of samples is
    taken for public. A network in which a sample has no gradient of its own is refused, such as one
    with batch norm or one that reads neighbours.

    network  gives a row of class scores per sample
    clip     largest L2 norm of one sample's gradient
    noise    standard deviation of the noise on every number of the sum
    batch    expected samples per step
    lr       the step is lr / batch times the noisy sum
    """
    _check_samples(samples, labels, batch)
    if not (0 < noise < math.inf and 0 < clip < math.inf):
        raise ConfigError(f"clip, noise: found {clip!r}, {noise!r}; expected positive numbers")
    plan = TrainingPlan(steps, lr, clip, noise / clip, batch / len(samples))
    defence = find_defence(SAMPLE_DEFENCE)
    assert issubclass(defence, PrivateTraining)
    modes = _Modes.of_network(network)
    try:
        with torch.enable_grad():
            few = samples[:PROBED].detach()
            probe = torch.randn_like(few) if few.is_floating_point() else few
            _refuse_network(defence, network, probe)
            training = defence(plan, len(samples))
            one = Clients.of([0])
            training.train_module(network, (samples.detach(),), labels, SystemNoise(), one, 1)
    finally:
        modes.restore()


def _check_samples(samples: Tensor, labels: Tensor, batch: int) -> None:
    if len(samples) < 2 or labels.shape != (len(samples),):
        raise ConfigError(
            f"labels: found shape {tuple(labels.shape)} for {len(samples)} samples; expected two "
            "samples at least, and a class number for each"
        )
    if type(batch) is not int or not 1 <= batch <= len(samples):
        raise ConfigError(f"batch: found {batch!r}; expected 1 to {len(samples)} samples")


def _refuse_network(defence: type[PrivateTraining], network: nn.Module, probe: Tensor) -> None:
    """Raise `ConfigError` unless every sample has a gradient of its own."""
    name = type(network).__name__
    defence.adopt(network)
    with torch.no_grad():
        scores = network(probe)
    if scores.dim() != 2 or len(scores) != len(probe):
        raise ConfigError(
            f"{name}: found scores of shape {tuple(scores.shape)} for {len(probe)} samples; "
            "expected a row per sample"
        )
    if probe.is_floating_point():
        with torch.no_grad():
            refuse_where_samples_share_neighbours(name, network, probe)
    defence.refuse_module(name, network, (probe,), scores.shape[1])


@dataclass(frozen=True)
class _Modes:
    """Which parts of a network were in training."""

    parts: tuple[tuple[nn.Module, bool], ...]

    @classmethod
    def of_network(cls, network: nn.Module) -> _Modes:
        return cls(tuple((part, part.training) for part in network.modules()))

    def restore(self) -> None:
        for part, mode in self.parts:
            part.training = mode
