"""Noise inside a client's training: the contract, its plan, and networks for which it is refused.

A method says that its local training can be made private per sample: it asks `private_training`,
puts the result into its planned release, and calls `train` or `train_module` in place of its own
steps. `securefg/privacy/defences` has the trainings that ship.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from securefg.foundation.errors import ConfigError, PrivacyError
from securefg.privacy.accountants import Composition, Step
from securefg.privacy.defence import Asked, Defence, Stream, find_defence, local_defences
from securefg.privacy.ledger import Accounting
from securefg.privacy.noise import NoiseSource
from securefg.protocol.codec import Clients
from securefg.settings.execution import TrainingSettings

Weights = tuple[Tensor, ...]
SampleLoss = Callable[..., Tensor]
"""loss(weights, sample, label, *context) of ONE sample of ONE client, a scalar."""


@dataclass(frozen=True)
class TrainingPlan:
    """A plan of `num_steps` steps. Each draws every sample with probability `sampling`, clips its
    gradient to `clip_l2`, and adds N(0, (noise_multiplier clip_l2)^2) to the sum.

    Neighbouring sets differ by one sample's presence, its gradient zeroed out: sensitivity clip_l2.
    """

    num_steps: int
    lr: float
    clip_l2: float
    noise_multiplier: float
    sampling: float

    def __post_init__(self) -> None:
        for name in ("num_steps", "lr", "clip_l2"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name}: found {getattr(self, name)}, wanted a positive number")
        if not 0 <= self.noise_multiplier < math.inf:
            raise ConfigError(f"noise_multiplier: found {self.noise_multiplier}, wanted 0 or more")
        if not 0 < self.sampling <= 1:
            raise ConfigError(f"sampling: found {self.sampling}, wanted 0 < sampling <= 1")

    def steps_per_sample(self) -> Composition:
        """Return the charge of one sample: Poisson-sampled Gaussians, for
        `accountants.tightest`."""
        return (Step(self._noise(), self.num_steps, self.sampling),)

    def steps_per_client(self, num_samples: int) -> Composition:
        """Return the charge of a client for all its samples at once.

        Their clipped gradients add up in one vector, so together they move it n times as far, and
        whichever are drawn, no further: noise multiplier z / n, and no gain from the sampling.
        """
        return (Step(self._noise() / num_samples, self.num_steps),)

    def _noise(self) -> float:
        if self.noise_multiplier == 0:
            raise PrivacyError("training without noise has no epsilon; its releases are unbounded")
        return self.noise_multiplier


@dataclass(frozen=True, eq=False)
class Samples:
    """A set of (K, n, d) inputs and (K, n) labels of K clients. `context` is each client's own, (K,
    …)."""

    inputs: Tensor
    labels: Tensor
    context: tuple[Tensor, ...] = ()

    @property
    def num_samples(self) -> int:
        """Return the number n of samples of every client."""
        return self.inputs.shape[1]


@dataclass(frozen=True)
class PrivateTraining(Defence):
    """A defence whose noise is in the training that made the value. The upload gets no noise.

    It protects one of the client's `num_samples` samples. Only a method that plans the release so
    gets it, and the method must train so: nothing in the channel can tell.
    """

    noise_in = "training"
    accounting: ClassVar[Accounting] = "gaussian_steps"

    plan: TrainingPlan
    num_samples: int

    @property
    def noise_multiplier(self) -> float:
        """Return the noise of a step over the clip of a sample's gradient."""
        return self.plan.noise_multiplier

    @property
    def key(self) -> str:
        """Return the setting that asks for it, for errors."""
        return f"training.{self.name}"

    @classmethod
    def settle(cls, asked: Asked) -> Self:
        """Raise ConfigError, because this noise is asked for in the training settings."""
        raise ConfigError(
            f"privacy.mechanism: found {cls.name}, whose noise is in the training; expected noise "
            f"on the upload; set training.{cls.name} in place of it"
        )

    @abstractmethod
    def train(
        self,
        weights: Weights,
        samples: Samples,
        loss: SampleLoss,
        noise: NoiseSource,
        clients: Clients,
        round: int,
    ) -> Weights:
        """Return every client's weights after the planned steps, all clients at once."""

    @abstractmethod
    def train_module(
        self,
        module: nn.Module,
        inputs: tuple[Tensor, ...],
        labels: Tensor,
        noise: NoiseSource,
        clients: Clients,
        round: int,
    ) -> None:
        """Take the planned steps with one client's module, in place.

        inputs  the first is (n, …), a row per sample, and the others are passed on as they are
        """

    @classmethod
    @abstractmethod
    def adopt(cls, module: nn.Module) -> None:
        """Put a module into the state in which it trains. Raise `ConfigError` if its layers have no
        gradient for every sample."""

    @classmethod
    @abstractmethod
    def refuse_module(
        cls, model: str, module: nn.Module, inputs: tuple[Tensor, ...], num_classes: int
    ) -> None:
        """Raise `ConfigError` unless one sample's gradient is that of the sample alone."""

    def apply(self, values: Tensor, noise: NoiseSource, clients: Clients, stream: Stream) -> Tensor:
        """Return the values unchanged, because the training has added the noise."""
        return values

    def stddev(self, shape: torch.Size) -> float:
        """Raise PrivacyError, because the size of the noise on the weights is unknown."""
        raise PrivacyError("the noise is in the training; its size on the weights is unknown")

    def weight_noise(self) -> tuple[float, float]:
        """Return what a round's steps add up to in each weight: the noise's standard deviation,
        and the norm of all clipped gradients."""
        plan = self.plan
        step = plan.lr * plan.clip_l2 / (plan.sampling * self.num_samples)
        noise = step * plan.noise_multiplier * math.sqrt(plan.num_steps)
        return noise, step * plan.sampling * self.num_samples * plan.num_steps

    def require_samples(self, fewest: int, most: int) -> None:
        """Raise ConfigError unless clients have as many samples as the settings say, which is
        public.

        fewest, most  samples of any client; `fewest` may pass for `num_samples` where steps are
                      divided by that number whatever a client has
        """
        if most > self.num_samples or fewest < self.num_samples:
            found_text = "some client has another number of training samples"
            if fewest == self.num_samples:
                found_text = "a client has more training samples"
            raise ConfigError(
                f"{self.key}.num_samples is {self.num_samples}, and {found_text}; the step "
                "is divided by it, and epsilon per client counts it"
            )


def private_training(
    training: TrainingSettings, must_be_zero: Mapping[str, float] | None = None
) -> PrivateTraining | None:
    """Return the private training that the settings ask for, or None if they ask for none.

    must_be_zero  settings of the method, by key, that its private steps would ignore
    """
    asked = training.noise_in_training
    if asked is None:
        return None
    name, settings = asked
    unused = {"training.weight_decay": training.weight_decay, **(must_be_zero or {})}
    for key, found in unused.items():
        if found:
            raise ConfigError(f"{key} is {found:g}; allowed with training.{name}: 0")
    defence = find_defence(name, f"training.{name}")
    assert issubclass(defence, PrivateTraining)
    plan = TrainingPlan(
        num_steps=training.local_epochs,
        lr=training.lr,
        clip_l2=settings.clip_l2,
        noise_multiplier=settings.noise_multiplier,
        sampling=settings.sampling,
    )
    return defence(plan, settings.num_samples)


def refuse_where_samples_share_neighbours(
    model: str, forward: Callable[[Tensor], Tensor], inputs: Tensor
) -> None:
    """Raise `ConfigError` unless every sample's output depends on that sample alone.

    Clipping one sample's gradient bounds what the sample can do only if it is in no other's
    gradient. In a graph convolution a node is in all its neighbours'. NaN is put into some inputs
    and must not come out elsewhere: for each bit of the samples' numbers, into those that have it,
    then into the others, so that any two samples are told apart.
    """
    numbers = torch.arange(len(inputs))
    for bit in range(max(1, (len(inputs) - 1).bit_length())):
        for value in (0, 1):
            poisoned = (numbers >> bit & 1) == value
            tried = inputs.clone()
            tried[poisoned] = math.nan
            reached = forward(tried).flatten(1).isnan().any(1).cpu()
            if bool((reached & ~poisoned).any()):
                noisy = " or ".join(local_defences(noisy=True))
                raise ConfigError(
                    f"{model}: private training is refused: the output of a sample depends on "
                    "other samples (shared neighbours, or statistics of the batch), so one sample "
                    "moves many gradients and clipping each does not bound it; noise on the upload "
                    f"is the defence here (privacy.mechanism: {noisy})"
                )


def mlp_loss(weights: Weights, sample: Tensor, label: Tensor) -> Tensor:
    """Return the cross-entropy of W2 ReLU(W1 x), without bias: weights d x h and h x C."""
    first, second = weights
    logits = torch.relu(sample @ first) @ second
    return cross_entropy(logits, label)
