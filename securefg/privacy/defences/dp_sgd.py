"""DP-SGD on a client's own samples: for encoders whose per-sample gradients are sound.

    w := w - lr / (q n) (sum_{i drawn} g_i min(1, C / |g_i|) + N(0, z^2 C^2))

Abadi et al. 2016, "Deep Learning with Differential Privacy", Algorithm 1, in the form with Poisson
samples and a fixed denominator. It protects one SAMPLE of a client, against everybody who sees the
weights after any step. It does not protect the client, nor anything else that is computed from the
sample. All clients of a host train at once: the first axis is the client.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from scipy.special import ndtri
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from securefg.foundation.errors import ConfigError
from securefg.foundation.postponed_imports import execute_postponed
from securefg.privacy.accountants import Composition
from securefg.privacy.influence import Influence
from securefg.privacy.ledger import NO_BOUND, Mechanism, Reach
from securefg.privacy.noise import NoiseSource
from securefg.privacy.private_training import (
    PrivateTraining,
    SampleLoss,
    Samples,
    TrainingPlan,
    Weights,
)
from securefg.privacy.stages import clip_l2
from securefg.protocol.codec import Clients


@dataclass(frozen=True)
class DpSgd(PrivateTraining):
    """A training whose weights come from Poisson-sampled, clipped and noised steps."""

    name = "dp_sgd"
    label = "DP-SGD"
    about = "gradients are clipped and noised in training"
    colour = 5

    def train(
        self,
        weights: Weights,
        samples: Samples,
        loss: SampleLoss,
        noise: NoiseSource,
        clients: Clients,
        round: int,
    ) -> Weights:
        """Take the planned steps with the weights of all clients, (K, …) each, and return the new
        weights."""
        stream = (self.name, round)
        return train(weights, samples, loss, self.plan, noise, clients, stream).weights

    def train_module(
        self,
        module: nn.Module,
        inputs: tuple[Tensor, ...],
        labels: Tensor,
        noise: NoiseSource,
        clients: Clients,
        round: int,
    ) -> None:
        """Take the planned steps with one client's module, in place."""
        train_module(
            module,
            inputs,
            labels,
            self.plan,
            self.num_samples,
            noise,
            clients,
            (self.name, round),
        )

    @classmethod
    def adopt(cls, module: nn.Module) -> None:
        """Put a module into the state in which it trains. Raise ConfigError if a layer has no
        gradient for every sample."""
        watch_module(module).remove_hooks()

    @classmethod
    def refuse_module(
        cls, model: str, module: nn.Module, inputs: tuple[Tensor, ...], num_classes: int
    ) -> None:
        """Raise ConfigError unless the module's gradients of a sample are that sample's alone."""
        refuse_where_gradients_are_not_the_samples(model, module, inputs, num_classes)

    def fact(self, field: str, dim: int, num_rows: int, protects: bool) -> Mechanism:
        """Return the mechanism for all steps of a round, whose rows are the samples. Without noise
        there is no bound.

        These rows do not lie side by side, as those of an upload do, so z / sqrt(n) is no bound for
        the client: that is `steps_per_client`.
        """
        return Mechanism(
            field=field,
            rule=self.name,
            steps=self.plan.num_steps,
            per="row",
            noise_multiplier=self.plan.noise_multiplier or None,
            num_rows=self.num_samples,
            sampling=self.plan.sampling,
            adjacency="zero_out",
            protects=protects,
            accounting=self.accounting,
        )

    def noise_met(self, influence: Influence, holders: int, dim: int, num_rows: int) -> Reach:
        """Return the noise that a node or an edge meets. One sample's gradient moves a step by C,
        and r samples' by r C, whichever are drawn."""
        rows = self.num_samples if influence.rows is None else min(influence.rows, self.num_samples)
        if not self.plan.noise_multiplier:
            return NO_BOUND
        sampling = self.plan.sampling if rows == 1 else 1.0
        return Reach(self.plan.noise_multiplier / rows, holders, sampling, removal=True)

    def words(self) -> str:
        """Return the rule in words."""
        return (
            f"trained in {self.plan.num_steps} steps with each sample's gradient clipped to L2 "
            f"norm {self.plan.clip_l2:g} and noise of {self.plan.noise_multiplier:.4g} times that"
        )


@dataclass(frozen=True, eq=False)
class Trained:
    """A training's result: every client's new weights, (K, …) each, and the charge of a sample."""

    weights: Weights
    plan: TrainingPlan

    @property
    def steps(self) -> Composition:
        """Return the composition that one sample is charged."""
        return self.plan.steps_per_sample()


def train(
    weights: Weights,
    samples: Samples,
    loss: SampleLoss,
    plan: TrainingPlan,
    noise: NoiseSource,
    clients: Clients,
    name: tuple[str | int, ...],
) -> Trained:
    """Take the steps w := w - lr / (q n) (sum_{i drawn} g_i min(1, C / |g_i|) + N(0, z^2 C^2)).

    Steps are divided by the expected number of samples, never by the drawn number, which nobody may
    learn. `noise` also draws the samples: amplification counts only while they are secret. Return
    the new weights with the plan.
    """
    for step in range(plan.num_steps):
        clipped = clip_l2(per_sample_gradients(weights, samples, loss), plan.clip_l2, "row")
        drawn = _draw_samples(plan, samples, noise, clients, (*name, "sample", step))
        total = torch.einsum("kn,knp->kp", drawn.to(clipped), clipped)
        normals = noise.normal(total.shape, clients, (*name, "noise", step)).to(total.device)
        total.add_(normals, alpha=plan.noise_multiplier * plan.clip_l2)
        weights = _move_weights(weights, total, plan.lr / (plan.sampling * samples.num_samples))
    return Trained(weights, plan)


def train_module(
    module: nn.Module,
    inputs: tuple[Tensor, ...],
    labels: Tensor,
    plan: TrainingPlan,
    num_samples: int,
    noise: NoiseSource,
    clients: Clients,
    name: tuple[str | int, ...],
) -> None:
    """Take the same steps with one client's module of any kind, in place. Opacus gives the
    gradients.

    inputs       the first is (n, …), a row per sample; the others are passed on as they are
    num_samples  the public number by which steps are divided, at least n
    """
    watched = watch_module(module)
    rate = plan.lr / (plan.sampling * num_samples)
    for step in range(plan.num_steps):
        drawn = noise.normal(torch.Size((1, len(inputs[0]))), clients, (*name, "sample", step))
        chosen = drawn[0].to(inputs[0].device) < float(ndtri(plan.sampling))
        total = _sum_drawn(watched, inputs, labels, chosen, plan.clip_l2)
        normals = noise.normal(total[None].shape, clients, (*name, "noise", step))[0]
        total = total + plan.noise_multiplier * plan.clip_l2 * normals.to(total)
        moved = parameters_to_vector(_trained_parameters(module)).detach()
        vector_to_parameters(moved - (rate * total).to(moved.dtype), _trained_parameters(module))
    watched.remove_hooks()
    _forget_gradients(module)


def _sum_drawn(
    watched: Any, inputs: tuple[Tensor, ...], labels: Tensor, chosen: Tensor, bound: float
) -> Tensor:
    """Return the sum of the chosen rows' clipped gradients.

    Rows that come with nothing else are read alone, so that only the chosen ones are computed.
    """
    rows, kept = inputs[0].detach(), chosen
    if len(inputs) == 1:
        rows, labels, kept = rows[chosen], labels[chosen], torch.ones_like(chosen[chosen])
    watched.zero_grad()
    if len(rows):
        _backpropagate(watched, (rows, *inputs[1:]), labels)
    clipped = clip_l2(_grad_samples(watched._module, len(rows)), bound, "row")
    return clipped[0][kept].sum(0)


def _backpropagate(watched: Any, inputs: tuple[Tensor, ...], labels: Tensor) -> None:
    """Let Opacus note every row's gradient. PyTorch warns of hooks below which nothing wants a
    gradient: rows want one, and tokens cannot."""
    rows = inputs[0].detach().clone()
    if rows.is_floating_point():
        rows.requires_grad_()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Full backward hook is firing")
        scores = watched(rows, *inputs[1:])
        torch.autograd.backward(cross_entropy(scores, labels, reduction="sum"))


def watch_module(module: nn.Module) -> Any:
    """Return the module under Opacus' hooks, which give every sample's gradient. Raise
    `ConfigError` if they cannot.

    Only modules with weights of their own are in training, where the hooks listen: dropout would
    draw from a stream that nobody named.
    """
    execute_postponed()  # Opacus' import looks at all loaded modules
    from opacus import GradSampleModule  # an expensive import that other runs need not pay for

    for part in module.modules():
        part.training = any(True for _ in part.parameters(recurse=False))
    try:
        return GradSampleModule(module, loss_reduction="sum", strict=True)
    except (NotImplementedError, ValueError) as error:
        said = " ".join(str(error).split())[:200]
        raise ConfigError(f"training.dp_sgd: Opacus refuses the network: {said}") from error


def _grad_samples(module: nn.Module, count: int) -> Tensor:
    """Return (1, n, P): Opacus' gradients of every sample, all weights that are trained in one
    row."""
    parts = []
    for parameter in _trained_parameters(module):
        found = getattr(parameter, "grad_sample", None)
        if found is None:  # no sample at all
            found = parameter.new_zeros(count, *parameter.shape)
        parts.append(found.detach().flatten(1))
    return torch.cat(parts, 1)[None]


def _trained_parameters(module: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that are trained. A frozen parameter gets no noise and stays as it was
    sent."""
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def per_sample_gradients(weights: Weights, samples: Samples, loss: SampleLoss) -> Tensor:
    """Return (K, n, P): the gradient of every sample of every client, all weights in one vector."""
    # The first use of torch.func loads PyTorch's compiler, which other runs need not pay for.
    from torch.func import grad, vmap

    own = (0,) * len(samples.context)
    shared = (None,) * len(samples.context)
    of_samples: Any = vmap(grad(loss), in_dims=(None, 0, 0, *shared))
    of_clients: Any = vmap(of_samples, in_dims=(0, 0, 0, *own))
    gradients = of_clients(weights, samples.inputs, samples.labels, *samples.context)
    return torch.cat([gradient.flatten(2) for gradient in gradients], dim=2)


def _draw_samples(
    plan: TrainingPlan,
    samples: Samples,
    noise: NoiseSource,
    clients: Clients,
    name: tuple[str | int, ...],
) -> Tensor:
    """Return (K, n): which samples a step uses. A normal lies below Phi^-1(q) with probability
    q."""
    shape = samples.inputs.shape[:2]
    return noise.normal(shape, clients, name) < float(ndtri(plan.sampling))


def _move_weights(weights: Weights, direction: Tensor, rate: float) -> Weights:
    """Return every client's weights, moved against its direction, (K, P)."""
    parts = torch.split(direction, [w[0].numel() for w in weights], dim=1)
    return tuple(
        w - (rate * part.reshape(w.shape)).to(w.dtype)
        for w, part in zip(weights, parts, strict=True)
    )


def refuse_where_gradients_are_not_the_samples(
    model: str, module: nn.Module, inputs: tuple[Tensor, ...], num_classes: int
) -> None:
    """Raise `ConfigError` unless Opacus' row i is the gradient of sample i, by itself.

    Opacus takes a layer's i-th row for the i-th sample. A network that reorders rows, adds an axis
    or uses weights outside their layer breaks that, and one sample is then clipped as several. The
    samples' outputs may still be apart, so that gradients are compared with those of a sample
    alone: at both ends, and between.
    """
    rows = inputs[0]
    labels = torch.arange(len(rows), device=rows.device) % num_classes
    watched = watch_module(module)
    try:
        watched.zero_grad()
        _backpropagate(watched, inputs, labels)
        sample_gradients = _grad_samples(module, len(rows))[0]
    except (RuntimeError, ValueError, IndexError):
        sample_gradients = rows.new_zeros(0)
    finally:
        watched.remove_hooks()
        _forget_gradients(module)
    own = _trained_parameters(module)
    for i in torch.linspace(0, len(rows) - 1, min(8, len(rows))).long().tolist():
        loss = cross_entropy(module(rows[i : i + 1], *inputs[1:]), labels[i : i + 1])
        alone = torch.autograd.grad(loss, own, allow_unused=True, materialize_grads=True)
        wanted = torch.cat([part.flatten() for part in alone])
        slack = 1e-3 * float(wanted.abs().max()) + 1e-6
        if sample_gradients.shape != (len(rows), len(wanted)) or not torch.allclose(
            sample_gradients[i], wanted, rtol=1e-3, atol=slack
        ):
            raise ConfigError(
                f"{model}: DP-SGD is refused: with {len(rows)} samples, what Opacus takes for a "
                "sample's gradient is not that of the sample alone (rows in another order, weights "
                "used outside their layer, chance, or statistics of the batch), so clipping it "
                "bounds nothing"
            )


def _forget_gradients(module: nn.Module) -> None:
    for parameter in module.parameters():
        parameter.grad = None
        if hasattr(parameter, "grad_sample"):
            del parameter.grad_sample


DEFENCE = DpSgd
