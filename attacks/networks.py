"""The network of a recording as a function, where its code is known, and gradients of its loss."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from attacks.base import Array, CannotAttack, Function, View
from attacks.models import MODEL, changed_rows, sent_models

Samples = NDArray[np.float32]
BATCH = 128
SKETCHED = 16_384
"""Longer gradients are added up into so many numbers, with random signs: their products stay."""


def function_of(view: View) -> Function:
    """Return the network as a function of flat weights and samples."""
    if view.function is None:
        raise CannotAttack("the network's code is not known (--network)")
    return view.function


def has_a_function(view: View) -> str | None:
    """Return None (for `applies_to`) where the network's code is known and weights are labelled."""
    if view.function is None:
        return "the network's code is not known (--network, for recordings of other frameworks)"
    return None


def changes_by_round(view: View) -> dict[int, dict[int, Tensor]]:
    """Return how every client changed the model, by round and client."""
    sent, client_changes = sent_models(view), dict[int, dict[int, Tensor]]()
    for message in view.readable(MODEL):
        rows = changed_rows(message, sent).float()
        of_round = client_changes.setdefault(message.round, {})
        of_round |= dict(zip(message.clients.numbers(), rows, strict=True))
    return client_changes


class Sketch:
    """A map of long vectors to short ones that keeps their inner products on average."""

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self._place = self._sign = None
        if size > SKETCHED:
            self._place = torch.from_numpy(rng.integers(SKETCHED, size=size))
            self._sign = torch.from_numpy(rng.integers(2, size=size).astype(np.float32) * 2 - 1)

    def shorten(self, vector: Tensor) -> Tensor:
        """Return the vector, or a shorter one."""
        if self._place is None or self._sign is None:
            return vector
        return torch.zeros(SKETCHED).index_add_(0, self._place, vector * self._sign)


def sample_gradients_of(
    function: Function, weights: Tensor, samples: Samples, labels: Tensor, sketch: Sketch
) -> Tensor:
    """Return the gradient of every sample's cross-entropy at these weights, shortened."""
    rows = []
    for sample, label in zip(samples, labels, strict=True):
        at = weights.detach().clone().requires_grad_()
        loss = cross_entropy(function(at, torch.from_numpy(sample[None])), label[None])
        (gradient,) = torch.autograd.grad(loss, at)
        rows.append(sketch.shorten(gradient.nan_to_num()))
    return torch.stack(rows)


def label_confidence(
    function: Function, weights: Tensor, samples: Samples, labels: Tensor
) -> Array:
    """Return log(p / (1 - p)) of the probability of every sample's own class."""
    starts = range(0, len(samples), BATCH)
    batches = [torch.from_numpy(samples[start : start + BATCH]) for start in starts]
    with torch.no_grad():
        scores = torch.cat([function(weights, batch) for batch in batches])
    logs = scores.double().nan_to_num().log_softmax(-1)
    own = logs.gather(1, labels[:, None])[:, 0]
    others = torch.log1p(-own.exp().clamp(max=1 - 1e-12))
    found: Array = (own - others).numpy()
    return found
