"""How sure a model is of a node's label: what membership inference reads.

Whoever may query the released model is told its logits. A server that is sent predictions has
more: every client's, right after the client trained on its own labels.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from torch import Tensor

from attacks.base import AS_IT_IS, Array, CannotAttack, Shadows, Targets, View
from attacks.leaning import largest_shift, leaning
from securefg.protocol.meanings import Predictions, Weights

ROUNDS = 5


def answered(view: View, targets: Targets) -> Array:
    """Logits, or logs of probabilities, of every target, (n, C)."""
    if view.answers is None:
        raise CannotAttack("the run released no model that answers for nodes")
    rows = view.answers[targets.ids].double()
    uploaded = _uploaded(view)
    if uploaded is not None:
        known = torch.isfinite(uploaded[targets.ids]).all(1, keepdim=True)
        rows = torch.where(known, uploaded[targets.ids], rows.log_softmax(-1))
    found: Array = rows.numpy()
    return found


def _uploaded(view: View) -> Tensor | None:
    """The mean over a node's holders and the last rounds of log P, NaN where nobody holds it.

    Only of predictions that left as they were: noisy ones say less than the released model.
    """
    if view.adversary.kind != "server":
        return None
    sent = view.uploads(Predictions("nodes"))
    plain = [m for m in sent if m.rule == AS_IT_IS and not m.masked]
    if not plain:
        return None
    last = sorted({m.round for m in plain})[-ROUNDS:]
    total: Tensor | None = None
    for message in (m for m in plain if m.round in last):
        held = (message.value.sum(-1, keepdim=True) > 0).double()
        logs = held * message.value.double().clamp_min(1e-12).log()
        both = torch.cat([logs, held], -1).sum(0)
        total = both if total is None else total + both
    assert total is not None
    return total[:, :-1] / total[:, -1:]


def beside_the_prior(view: View, targets: Targets, scores: Array) -> Array:
    """What answers tell, as far as noise on what made the model lets them tell anything."""
    noises = [view.noise[place] for place in view.places(Weights()) if place in view.noise]
    if not noises or view.training is None:
        return scores
    releases = view.training.rounds * view.public.num_clients
    return leaning(
        scores, targets.prior, largest_shift(noises[0], share_of_one(view, targets), releases)
    )


def share_of_one(view: View, targets: Targets) -> float:
    """Of a client's clipped update, what one of its members pulls, all pulling apart."""
    each = len(targets.ids) / max(view.public.num_clients, 1)
    return min(1.0, math.sqrt(1 / each))


def labels_of(targets: Targets) -> NDArray[np.int64]:
    """The targets' labels; without them membership of a label means nothing."""
    if targets.labels is None:
        raise CannotAttack("the adversary does not know the targets' labels")
    return targets.labels


def shadows_of(targets: Targets) -> Shadows:
    if targets.shadows is None:
        raise CannotAttack("the adversary has no shadow models")
    return targets.shadows


def log_confidence(logits: NDArray[np.floating], labels: NDArray[np.int64]) -> Array:
    """log p_y, over any leading axes: minus the cross-entropy."""
    rows = np.asarray(logits, np.float64)
    own: Array = rows[..., np.arange(len(labels)), labels] - logsumexp(rows, axis=-1)
    return own


def scaled_confidence(logits: NDArray[np.floating], labels: NDArray[np.int64]) -> Array:
    """log p_y - log sum_{c != y} p_c: over models close to normal (Carlini et al. 2022)."""
    rows = np.asarray(logits, np.float64)
    own = rows[..., np.arange(len(labels)), labels]
    others = rows.copy()
    others[..., np.arange(len(labels)), labels] = -np.inf
    found: Array = own - logsumexp(others, axis=-1)
    return found


def standardised(confidence: Array) -> Array:
    """Every model's confidences over the targets, on the scale of their own quartiles.

    A model that trained longer, or an average of many, is surer of everything; half the targets are
    members for the target model and for every shadow, so their quartiles can be compared.
    """
    low, middle, high = np.quantile(confidence, [0.25, 0.5, 0.75], axis=-1, keepdims=True)
    found: Array = (confidence - middle) / np.maximum(high - low, 1e-9)
    return found
