"""A client's samples from one update of any network, by matching its gradient."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from attacks.base import Array, Attack, CannotAttack, Function, View
from attacks.models import MODEL, first_changes, layout_of
from attacks.networks import function_of, has_a_function
from attacks.questions import MatchedSamples
from securefg.protocol.meanings import Layout

MOST_SAMPLES = 4
STARTS, STEPS, LR = 2, 240, 0.1
SMOOTHNESS = 1e-2


def network_inversion(view: View, question: MatchedSamples, rng: np.random.Generator) -> Array:
    """Return for every client as many rows as it has samples, by matching its first update.

    Dummy samples are moved by Adam, on the signs of the derivative, until the gradient that they
    cause points as the update does: cosine distance, with neighbouring pixels of images held
    together (Geiping et al. 2020). Labels come first, from the output layer (Yin et al. 2021). The
    search starts from noise and from the prior's mean. The start that matches best counts.
    """
    if question.num_samples > MOST_SAMPLES:
        raise CannotAttack(
            f"{question.num_samples} or more samples per client; up to {MOST_SAMPLES} are sought"
        )
    function, layout = function_of(view), layout_of(view)
    start, changes = first_changes(view, question.ids)
    stream = torch.Generator().manual_seed(int(rng.integers(2**62)))
    shape = (question.num_samples, *question.shape)
    client_samples = []
    for row, change in enumerate(changes):
        wanted = -change.float().nan_to_num()
        labels = read_labels(layout, change, question.num_samples, view.public.num_classes)
        match = Match(function, start.float(), wanted, labels)
        starts = [torch.randn(shape, generator=stream) for _ in range(STARTS - 1)]
        if question.prior is not None:
            near = torch.from_numpy(question.prior[row, :1]).float().reshape(1, *question.shape)
            starts.append(near.expand(shape) + 0.1 * torch.randn(shape, generator=stream))
        client_samples.append(match.best_of(starts).flatten(1).numpy())
    return np.stack(client_samples).astype(np.float64)


def read_labels(layout: Layout, change: Tensor, count: int, classes: int) -> Tensor:
    """Return the classes that the output layer was pulled up to most, one per sample.

    A class that is pulled up several times as far as another one has several samples.
    """
    if layout.output is None:
        return torch.arange(count) % max(classes, 1)
    moved = layout.part(change[None], layout.output).sum(-2)[0]
    if layout.output.bias is not None:
        moved = layout.layer(change, layout.output.bias)
    left, best_classes = moved.clone(), []
    step = moved.clamp_min(0).sum() / count
    for _ in range(count):
        best = int(left.argmax())
        best_classes.append(best)
        left[best] -= step
    return torch.tensor(best_classes)


class Match:
    """A search for samples with these labels whose gradient points in one direction."""

    def __init__(self, function: Function, start: Tensor, wanted: Tensor, labels: Tensor) -> None:
        self._function, self._labels = function, labels
        self._start = start.detach().clone().requires_grad_()
        self._wanted = wanted / wanted.norm().clamp_min(1e-30)

    def best_of(self, starts: list[Tensor]) -> Tensor:
        """Return the samples with the smallest distance that a search from any start reached."""
        reached = [self._search(start) for start in starts]
        return min(reached, key=lambda entry: entry[0])[1]

    def _search(self, start: Tensor) -> tuple[float, Tensor]:
        samples = start.clone().requires_grad_()
        adam = torch.optim.Adam([samples], LR)
        plan = torch.optim.lr_scheduler.CosineAnnealingLR(adam, STEPS)
        for _ in range(STEPS):
            adam.zero_grad()
            loss = self._distance(samples) + SMOOTHNESS * roughness(samples)
            (slope,) = torch.autograd.grad(loss, samples)
            samples.grad = slope.nan_to_num().sign()
            adam.step()
            plan.step()
        return float(self._distance(samples)), samples.detach()

    def _distance(self, samples: Tensor) -> Tensor:
        loss = cross_entropy(self._function(self._start, samples), self._labels)
        (gradient,) = torch.autograd.grad(loss, self._start, create_graph=True)
        alike: Tensor = (gradient @ self._wanted) / gradient.norm().clamp_min(1e-30)
        return 1 - alike


def roughness(samples: Tensor) -> Tensor:
    """Return the mean difference of neighbouring pixels; rows that are no images have none."""
    if samples.dim() != 4:
        return torch.zeros(())
    across = (samples[..., 1:] - samples[..., :-1]).abs().mean()
    down = (samples[..., 1:, :] - samples[..., :-1, :]).abs().mean()
    return across + down


NETWORK_INVERSION = Attack(
    name="network_inversion",
    summary="a client's samples, by matching the gradient of any network",
    source="Geiping et al. 2020, with the labels of Yin et al. 2021",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="one round's uploads and the model sent before; the network; how many samples a client "
    "trains on",
    adversaries=frozenset({"server"}),
    question=MatchedSamples,
    floor=0.05,
    expected="cosine 0.98 for one image and one step on small convolutions, 0.95 for four; near "
    "the prior behind several pooling layers",
    exposes="records close to those that one client trained on",
    stopped_by="masks; noise on the update; many samples and steps",
    run=network_inversion,
    rounds=1,
    applies_to=has_a_function,
)

ATTACKS = (NETWORK_INVERSION,)
