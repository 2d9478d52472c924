"""Was a sample trained on? Attacks on the first layer of a perceptron, for any number of samples.

A sample x with error signal b behind the first layer moves that layer by -lr b x^T. An adversary
who knows x and its class computes b for a model and looks for b x^T in how the layer changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from attacks.base import Array, Attack, CannotAttack, View
from attacks.membership_gradients import Change, changes_of_clients
from attacks.models import MODEL, layout_of, moved_by, reads_a_span, sent_models
from attacks.questions import MemberSamples
from securefg.protocol.meanings import Layout, Weights

STEPS, UPLOADS = 12, 30
"""Changes between sent models, and of every client, that are read."""
SENT_RIDGE, RELEASED_RIDGE = 0.001, 0.1
"""Parts of the largest eigenvalue of the error signals' second moment that are added to all.

A change between two sent models has little beside the pulls. A released model has its first weights
too.
"""


def error_signals(layout: Layout, vector: Tensor, samples: Tensor, labels: Tensor) -> Tensor:
    """Return (n, units): the derivative of every sample's cross-entropy by what the first layer
    gives, b = ((softmax(z) - y) W1^T) * [x W0 > 0] for z = ReLU(x W0) W1."""
    assert layout.output is not None
    first, second = layout.part(vector, layout.inputs[0]), layout.part(vector, layout.output)
    before = samples @ first
    error = (before.relu() @ second).softmax(-1)
    error[torch.arange(len(labels)), labels] -= 1
    return (error @ second.T) * (before > 0)


@dataclass(frozen=True)
class Left:
    """What left the first layer, (inputs, units), after a model was sent.

    ridge  how much is added to the second moment of the error signals before it is inverted
    """

    model: Tensor
    change: Tensor
    ridge: float

    def pulls_of(self, signals: Tensor, samples: Tensor) -> Tensor:
        """Return b^T M D x / (|b|_M |x|) of every sample.

        D is the change, and M the inverse of the signals' second moment. Without M all samples of a
        class look alike, since their signals share a few directions.
        """
        moment = signals.T @ signals / len(signals)
        largest = torch.linalg.eigvalsh(moment)[-1].clamp_min(1e-300)
        ridge = self.ridge * largest * torch.eye(len(moment), dtype=moment.dtype)
        whitened = torch.linalg.solve(moment + ridge, signals.T).T
        sizes = (whitened * signals).sum(1).clamp_min(0).sqrt() * samples.norm(dim=1)
        pulled: Tensor = ((samples @ self.change) * whitened).sum(1) / sizes.clamp_min(1e-300)
        return pulled


def sample_pull(view: View, question: MemberSamples, rng: np.random.Generator) -> Array:
    """Return how much of each sample's gradient the changes of the first layer contain.

    Every party that is sent two models sees a change, whatever masks hid single uploads. The
    adversary with the released model alone reads that model as a change from zero. Only the
    perceptron is used: sums over a graph that the loss adds are unknown and move all samples alike.
    """
    layout = layout_of(view)
    samples = torch.from_numpy(question.samples).double()
    labels = torch.from_numpy(question.labels)
    total: Array = np.zeros(len(labels))
    for left in _iterate_changes(view, layout):
        signals = error_signals(layout, left.model, samples, labels)
        total += left.pulls_of(signals, samples).numpy()
    return total


def _iterate_changes(view: View, layout: Layout) -> Iterator[Left]:
    """Yield what left the first layer between models that were sent, or until the release."""
    sent = {number: vector.double() for number, vector in sent_models(view).items()}
    pairs = list(pairwise(sorted(sent)))[:STEPS]
    for before, after in pairs:
        moved = sent[before] - sent[after]
        yield Left(sent[before], layout.part(moved, layout.inputs[0]), SENT_RIDGE)
    if pairs:
        return
    released = view.release(Weights())
    if released is None:
        raise CannotAttack("neither two models that were sent nor a released model is in the view")
    vector = released.flatten().double()
    yield Left(vector, -layout.part(vector, layout.inputs[0]), RELEASED_RIDGE)


def is_perceptron(view: View) -> str | None:
    """Return None (for `applies_to`) for two matrices with a rectifier between."""
    layout = layout_of(view)
    is_known = layout.form in ("mlp2", "any") and len(layout.layers) == 2
    if not is_known or len(layout.inputs) != 1 or layout.output is None:
        return "the equations are of two matrices without biases, which this network is not"
    empty = torch.zeros(layout.size)
    first, second = layout.part(empty, layout.inputs[0]), layout.part(empty, layout.output)
    public = view.public
    if (first.shape[0], *second.shape) != (
        public.num_features,
        first.shape[1],
        public.num_classes,
    ):
        return "the two matrices do not lead from features over units to classes"
    if public.num_clients != public.num_nodes:
        return "clients hold several nodes: membership of nodes is asked instead"
    return None


SAMPLE_PULL = Attack(
    name="sample_pull",
    summary="whether a sample was trained on, from changes of the first layer between sent models",
    source="derived here; Nasr et al. 2019 for gradients, whitened by the error signals' moment",
    needs=(MODEL,),
    assumes="models that were sent, or the released one; the samples and their classes",
    adversaries=frozenset({"client", "outsider", "server"}),
    question=MemberSamples,
    floor=0.05,
    expected="AUC 0.92 to 1.00 for who is sent models, 0.75 to 0.98 from the released one",
    exposes="that a record was among those that a client trained on",
    stopped_by="noise on the update; DP-SGD bounds it; masks do not, since all are sent the mean",
    run=sample_pull,
    rounds=13,
    applies_to=is_perceptron,
)


def sample_span(view: View, question: MemberSamples, rng: np.random.Generator) -> Array:
    """Return how much of each sample lies in the span of its client's change of the first layer.

    Plain gradient descent moves the layer by a sum of b x^T over the samples that trained, so these
    lie in the span of the change, and others do not if the span is small.
    """
    sample_scores = np.zeros(len(question.ids))
    for client, parts in moved_by(view, set(question.clients.tolist())).items():
        own = question.clients == client
        sample_scores[own] = -np.min(
            [part.share_outside(question.samples[own]) for part in parts], axis=0
        )
    return sample_scores


SAMPLE_SPAN = Attack(
    name="sample_span",
    summary="whether a sample was trained on, from the span of its client's uploaded change",
    source="derived here; GRAIN (Drencheva et al. 2025) for spans of gradients",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="one upload of every client and the model it started from; the samples",
    adversaries=frozenset({"server"}),
    question=MemberSamples,
    floor=0.1,
    expected="AUC 1.00 where clients train on fewer samples than the layer has units and inputs",
    exposes="that a record was among those that a client trained on",
    stopped_by="masks; noise on the update; DP-SGD; as many samples as the layer has units",
    run=sample_span,
    rounds=1,
    applies_to=reads_a_span,
)


def sample_gradients(view: View, question: MemberSamples, rng: np.random.Generator) -> Array:
    """Return the mean cosine of each sample's gradient with its client's changes, less the mean
    over the client's targets.

    Noise on a change adds to the cosines of all samples and favours none, so rounds add up.
    """
    layout, labels = layout_of(view), torch.from_numpy(question.labels)
    samples, sample_scores = (
        torch.from_numpy(question.samples).double(),
        np.zeros(len(question.ids)),
    )
    for client, changes in changes_of_clients(view, UPLOADS):
        sample_indices = torch.from_numpy(np.flatnonzero(question.clients == client))
        if client is None:
            raise CannotAttack("masks leave the mean of all clients: sample_pull reads that")
        if not len(sample_indices):
            continue
        parts = [
            _gradient_cosines(layout, change, samples[sample_indices], labels[sample_indices])
            for change in changes
        ]
        cosines = torch.stack(parts).mean(0)
        sample_scores[sample_indices.numpy()] = (cosines - cosines.mean()).numpy()
    return sample_scores


def _gradient_cosines(layout: Layout, change: Change, samples: Tensor, labels: Tensor) -> Tensor:
    """Return the cosine of minus a change with the gradient of every sample by both matrices."""
    assert layout.output is not None
    vector, moved = change.received.double(), -change.moved.double()
    first, second = layout.part(vector, layout.inputs[0]), layout.part(vector, layout.output)
    hidden = (samples @ first).relu()
    error = (hidden @ second).softmax(-1)
    error[torch.arange(len(labels)), labels] -= 1
    signals = error_signals(layout, vector, samples, labels)
    by_first = ((samples @ layout.part(moved, layout.inputs[0])) * signals).sum(1)
    by_second = ((hidden @ layout.part(moved, layout.output)) * error).sum(1)
    squares = (samples.norm(dim=1) * signals.norm(dim=1)) ** 2
    squares = squares + (hidden.norm(dim=1) * error.norm(dim=1)) ** 2
    sizes: Tensor = squares.sqrt() * moved.norm()
    return (by_first + by_second) / sizes.clamp_min(1e-300)


SAMPLE_GRADIENTS = Attack(
    name="sample_gradients",
    summary="whether a sample was trained on, from its gradient's part in its client's uploads",
    source="derived here; Nasr et al. 2019",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="uploads of every client in some rounds and the models they started from; the samples "
    "and their classes",
    adversaries=frozenset({"server"}),
    question=MemberSamples,
    floor=0.05,
    expected="AUC 0.9 without noise, 0.65 under DP-SGD with epsilon 6.5 per sample",
    exposes="that a record was among those that a client trained on",
    stopped_by="masks, which leave the mean of all clients; noise on the update; stronger DP-SGD",
    run=sample_gradients,
    rounds=UPLOADS,
    applies_to=is_perceptron,
)

ATTACKS = (SAMPLE_PULL, SAMPLE_SPAN, SAMPLE_GRADIENTS)
