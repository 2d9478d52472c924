"""Was this node's label trained on? RMIA, offline: how surprising the confidence is, against peers.

Zarifzadeh, Liu and Shokri, "Low-Cost High-Power Membership Inference Attacks", ICML 2024. With
p(x) = ((1 + a) p_out(x) + (1 - a)) / 2 from shadows that did not train on x, the score of x is the
share of peers z with (p(x | model) / p(x)) / (p(z | model) / p(z)) >= gamma. The peers are the
other targets: nobody else's label is known.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, Attack, CannotAttack, View
from attacks.confidence import (
    answered,
    beside_the_prior,
    scaled_confidence,
    standardised,
)
from attacks.questions import Membership
from securefg.protocol.meanings import Answers

OFFLINE_A = 0.3
GAMMA = 1.0


def run(view: View, question: Membership, rng: np.random.Generator) -> Array:
    shadows, labels = question.shadows, question.labels
    own = _probability(scaled_confidence(answered(view, question), labels))
    theirs = _probability(scaled_confidence(shadows.logits, labels))
    return beside_the_prior(view, question, share_of_peers(own, theirs, shadows.member))


def share_of_peers(own: Array, theirs: Array, member: NDArray[np.bool_]) -> Array:
    """p_y (n,) of the target model and (S, n) of the shadows, and whose member is what."""
    outside = ~member
    if outside.sum(0).min() < 1:
        raise CannotAttack("a target that every shadow trained on; wanted one that did not")
    p_out = np.where(outside, theirs, 0).sum(0) / outside.sum(0)
    ratio = own / (((1 + OFFLINE_A) * p_out + (1 - OFFLINE_A)) / 2)
    beaten: Array = np.searchsorted(np.sort(ratio), ratio / GAMMA, side="right") / len(ratio)
    return beaten


def _probability(confidence: Array) -> Array:
    """p_y = 1 / (1 + exp(-phi)), of confidences on a common scale."""
    found: Array = 1 / (1 + np.exp(-standardised(confidence)))
    return found


ATTACK = Attack(
    name="membership_rmia",
    summary="whether a node's label was trained on, from its relative likelihood among peers",
    source="Zarifzadeh, Liu and Shokri 2024, offline form",
    needs=(Answers(),),
    assumes="the model's answers, the targets' labels, and shadow models on the same graph",
    adversaries=frozenset({"outsider", "server"}),
    question=Membership,
    floor=0.08,
    expected="AUC 0.96 to 0.97 on an over-trained GCN on Cora, 0.84 averaged over small silos",
    exposes="that a person was among those whose labels were trained on",
    stopped_by="noise per person; fewer rounds; masks do not",
    run=run,
    rounds=30,
)
