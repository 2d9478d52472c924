"""Training samples from a perceptron's uploaded model, by matching its change."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from attacks.base import Array, Attack, CannotAttack, Noise, View
from attacks.models import MODEL, first_changes, layout_of, of_form
from attacks.questions import TrainingSamples

STARTS = 6
STEPS = 800
LR = 0.05
MOST_SAMPLES = 16


class Layers(NamedTuple):
    """A pair of matrices, W0 (d x h) and W1 (h x C), of ReLU(X W0) W1."""

    first: Tensor
    second: Tensor


@dataclass(frozen=True)
class Recipe:
    """A number of local steps, and their learning rate."""

    steps: int
    lr: float


def gradient_matching(view: View, question: TrainingSamples, rng: np.random.Generator) -> Array:
    """Return for every client as many rows as it trains on, by matching the change of its model.

    One local step moves W0 by -lr X^T E and W1 by -lr H^T (P - Y) / B: all columns of W0's change
    lie in the span of the B samples, so X = Z B with B an orthonormal basis of that span, and what
    is left to find are B x B numbers and the labels. Dummy samples and labels are moved, by Adam
    and from several starts, until they would cause the change that was uploaded: deep leakage from
    gradients (Zhu, Liu and Han 2019), within the span that the algebra gives. Several local steps
    are simulated as steps on all dummies, which is an approximation if batches were drawn.
    """
    count = question.num_samples
    if count > MOST_SAMPLES:
        raise CannotAttack(f"{count} training samples per client; up to {MOST_SAMPLES} are sought")
    noise = view.best_rows(MODEL)[0].noise
    if (
        noise is not None
        and question.prior is not None
        and hides_change(noise, layout_of(view).size)
    ):
        return _mostly_prior(view, question, rng)
    layout, recipe = layout_of(view), view.recipe
    vector, changes = _read_changes(view, question)
    assert layout.output is not None
    start = Layers(layout.part(vector, layout.inputs[0]), layout.part(vector, layout.output))
    steps = Recipe(recipe.local_epochs, recipe.lr)
    stream = torch.Generator().manual_seed(int(rng.integers(2**62)))
    found: Array = match_dummies(
        Seen.from_changes(changes, start, count), start, steps, stream
    ).numpy()
    return found


def hides_change(noise: Noise, numbers: int) -> bool:
    """Return whether noise is longer than the longest change, so that no match is a sample."""
    return noise.sd * math.sqrt(numbers) > noise.clip_l2


def _mostly_prior(view: View, question: TrainingSamples, rng: np.random.Generator) -> Array:
    """Return the prior's samples, moved along one direction of the change. A search would not pay
    here."""
    assert question.prior is not None
    layout, (vector, changes) = layout_of(view), _read_changes(view, question)
    assert layout.output is not None
    start = Layers(layout.part(vector, layout.inputs[0]), layout.part(vector, layout.output))
    found: Array = question.prior.copy()
    found[:, -1] = Seen.from_changes(changes, start, 1).basis[:, 0].numpy()
    return found


def _read_changes(view: View, question: TrainingSamples) -> tuple[Tensor, Tensor]:
    """Return the model that was sent first, and how each client changed it."""
    recipe, (vector, changes) = view.recipe, first_changes(view, question.ids)
    kept = (1 - recipe.lr * recipe.weight_decay) ** recipe.local_epochs
    return vector, changes + (1 - kept) * vector  # what decay took is in no sample's span


@dataclass(frozen=True)
class Seen:
    """A change of W0 in coordinates of its own span (n, B, h), a change of W1 (n, h, C), and W0 in
    these coordinates."""

    basis: Tensor
    first: Tensor
    second: Tensor
    start: Tensor

    @classmethod
    def from_changes(cls, change: Tensor, start: Layers, count: int) -> Seen:
        """Put changes into coordinates of their own span.

        X = Z basis loses nothing: what is orthogonal to W0's change is in no sample.
        """
        d, hidden = start.first.shape
        first = change[:, : d * hidden].view(-1, d, hidden)
        basis = torch.linalg.svd(first, full_matrices=False)[0][..., :count].mT
        second = change[:, d * hidden :].view(-1, *start.second.shape)
        return cls(basis, basis @ first, second, basis @ start.first)


def match_dummies(seen: Seen, start: Layers, recipe: Recipe, stream: torch.Generator) -> Tensor:
    """Return (clients, count, d): for each client the dummies of the start that matched best."""
    clients, count = seen.basis.shape[:2]
    shape = (clients, STARTS, count)
    place = torch.randn((*shape, count), generator=stream, dtype=torch.float64) / count**0.5
    label = torch.randn((*shape, start.second.shape[1]), generator=stream, dtype=torch.float64)
    optimiser = torch.optim.Adam([place.requires_grad_(), label.requires_grad_()], LR)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss = measure_mismatch(seen, start, recipe, place, label).sum()
        torch.autograd.backward(loss)
        optimiser.step()
        schedule.step()
    with torch.no_grad():
        best = measure_mismatch(seen, start, recipe, place, label).argmin(1)
    samples: Tensor = place.detach()[torch.arange(clients), best] @ seen.basis
    return samples


def measure_mismatch(
    seen: Seen, start: Layers, recipe: Recipe, place: Tensor, label: Tensor
) -> Tensor:
    """Return |made - seen|^2 / |seen|^2, for either layer, summed: (clients, starts)."""
    first, second = simulate_steps(
        place, label.softmax(-1), seen.start[:, None], start.second, recipe
    )
    parts = ((first, seen.first[:, None]), (second, seen.second[:, None]))
    size = torch.finfo(torch.float64).tiny
    terms = [
        (a - b).square().sum((-1, -2)) / b.square().sum((-1, -2)).clamp_min(size) for a, b in parts
    ]
    return terms[0] + terms[1]


def simulate_steps(
    inputs: Tensor, label: Tensor, first: Tensor, second: Tensor, recipe: Recipe
) -> tuple[Tensor, Tensor]:
    """Return the changes of both layers after local steps on all dummies."""
    at = (first, second)
    for _ in range(recipe.steps):
        before = inputs @ at[0]
        hidden = before.relu()
        error = ((hidden @ at[1]).softmax(-1) - label) / inputs.shape[-2]
        back = (error @ at[1].mT) * (before > 0)
        at = (at[0] - recipe.lr * (inputs.mT @ back), at[1] - recipe.lr * (hidden.mT @ error))
    return at[0] - first, at[1] - second


GRADIENT_MATCHING = Attack(
    name="gradient_matching",
    summary="a client's training samples, by matching the change of its uploaded perceptron",
    source="Zhu, Liu and Han 2019, within the span that the algebra gives",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="one round's uploads and the model sent before; how many samples a client trains on",
    adversaries=frozenset({"server"}),
    question=TrainingSamples,
    floor=0.1,
    expected="cosine 0.99 for four samples in one local step, 0.75 for ten",
    exposes="records close to those that one client trained on",
    stopped_by="masks; noise on the update; DP-SGD; more local steps and samples",
    run=gradient_matching,
    rounds=1,
    applies_to=of_form("mlp2"),
)


ATTACKS = (GRADIENT_MATCHING,)
