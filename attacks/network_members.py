"""Did a client train on a sample? Attacks on recordings of any network whose code is known."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attacks.base import Array, Attack, CannotAttack, View
from attacks.models import MODEL, layout_of, sent_models
from attacks.networks import (
    Sketch,
    changes_by_round,
    function_of,
    has_a_function,
    label_confidence,
    sample_gradients_of,
)
from attacks.questions import TrainedMembers

ROUNDS = 4
"""First rounds that are read. Later gradients are smaller, and every round costs seconds."""
RIDGE = 0.1


def network_members(view: View, question: TrainedMembers, rng: np.random.Generator) -> Array:
    """Return how much of each sample's gradient is in what its client changed and others did not.

    A client's change is a sum of gradients of its samples. The gradients of all samples in question
    are fitted to it together, by ridge regression: samples of a class look alike, and a fit tells
    them apart (Nasr et al. 2019 without the joint fit). The mean change of the other clients is
    taken off before. Every round is in units of its own spread over the samples.
    """
    function, sent, size = function_of(view), sent_models(view), layout_of(view).size
    labels, total = torch.from_numpy(question.labels), np.zeros(len(question.ids))
    rounds = changes_by_round(view)
    sketch = Sketch(size, rng)
    for number in sorted(rounds.keys() & sent.keys())[:ROUNDS]:
        changes = rounds[number]
        start = sent[number].float()
        gradients = sample_gradients_of(function, start, question.samples, labels, sketch)
        fit = Fit(gradients)
        for client in np.intersect1d(question.clients, list(changes)).tolist():
            pulled = sketch.shorten((_others_mean(changes, client) - changes[client]).nan_to_num())
            own = question.clients == client
            total[own] += fit.shares_of(pulled)[own]
    if not rounds.keys() & sent.keys():
        raise CannotAttack("no round in which both the sent model and an upload can be read")
    return total


def _others_mean(changes: dict[int, Tensor], client: int) -> Tensor:
    others = [change for other, change in changes.items() if other != client]
    return torch.stack(others).mean(0) if others else torch.zeros_like(changes[client])


class Fit:
    """A ridge regression on the gradients of samples, each scaled to length 1."""

    def __init__(self, gradients: Tensor) -> None:
        lengths = gradients.norm(dim=1, keepdim=True).clamp_min(1e-30)
        self._units = gradients / lengths
        gram = (self._units @ self._units.T).double()
        self._factor = torch.linalg.cholesky(gram + RIDGE * torch.eye(len(gram)).double())

    def shares_of(self, change: Tensor) -> Array:
        """Return every sample's coefficient, in units of their spread around their mean."""
        pulls = (self._units @ change).double()[:, None]
        found = torch.cholesky_solve(pulls, self._factor)[:, 0]
        scaled: Array = ((found - found.mean()) / found.std().clamp_min(1e-300)).numpy()
        return scaled


NETWORK_MEMBERS = Attack(
    name="network_members",
    summary="whether a client trained on a sample, from its gradient's part in the client's change",
    source="Nasr et al. 2019, with all gradients fitted together",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="uploads and sent models of some rounds; the network; the samples and their classes",
    adversaries=frozenset({"server"}),
    question=TrainedMembers,
    floor=0.05,
    expected="AUC 0.6 to 0.65 for two sites with 700 images each and 90 steps in a round, 0.8 for "
    "one step on 60",
    exposes="that a record was among those that a client trained on",
    stopped_by="masks; noise on the update; less so, more samples and steps",
    run=network_members,
    rounds=ROUNDS,
    applies_to=has_a_function,
)


def network_confidence(view: View, question: TrainedMembers, rng: np.random.Generator) -> Array:
    """Return how much surer of a sample's class its client's model is than models without it.

    These are the models that were sent and those of all other clients. The ratio of likelihoods to
    models that did not train on the sample is that of RMIA (Zarifzadeh et al. 2024), in the scale
    of LiRA (Carlini et al. 2022). Rounds are added up.
    """
    function, sent = function_of(view), sent_models(view)
    samples, labels = question.samples, torch.from_numpy(question.labels)
    total, rounds = np.zeros(len(question.ids)), changes_by_round(view)
    for number in sorted(rounds.keys() & sent.keys())[:ROUNDS]:
        start = sent[number].float()
        sure = {
            client: label_confidence(function, start + change, samples, labels)
            for client, change in rounds[number].items()
        }
        before = label_confidence(function, start, samples, labels)
        for client in np.intersect1d(question.clients, list(sure)).tolist():
            own = question.clients == client
            others = [told for other, told in sure.items() if other != client]
            reference = np.mean(others or [before], 0)
            total[own] += (sure[client] - reference)[own]
    return total


NETWORK_CONFIDENCE = Attack(
    name="network_confidence",
    summary="whether a client trained on a sample, from how sure its model is of the sample",
    source="RMIA, Zarifzadeh et al. 2024; LiRA, Carlini et al. 2022",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="uploads and sent models of some rounds; the network; the samples and their classes",
    adversaries=frozenset({"server"}),
    question=TrainedMembers,
    floor=0.05,
    expected="AUC 0.55 to 0.6 for two sites with 700 images each, more where models overfit",
    exposes="that a record was among those that a client trained on",
    stopped_by="masks; noise on the update; models that do not overfit",
    run=network_confidence,
    rounds=ROUNDS,
    applies_to=has_a_function,
)

ATTACKS = (NETWORK_MEMBERS, NETWORK_CONFIDENCE)
