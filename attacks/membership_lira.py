"""Was this node's label trained on? LiRA: the likelihood ratio of the model's confidence.

Carlini et al., "Membership Inference Attacks From First Principles", S&P 2022. Over shadow models
the confidence phi = log p_y - log sum_{c != y} p_c of a target is about normal, apart for those
that trained on it and those that did not; the score is the log ratio of the two densities at the
target model's phi. Where a target was never in (or never out of) a shadow's training set, the
offline form: how far phi lies above what the others say. Below 64 shadows the variances are shared
by all targets. Confidences are put on a common scale first (`confidence.standardised`).
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
from attacks.evidence import gaussian_log_ratio
from attacks.questions import Membership
from securefg.protocol.meanings import Answers

MANY_SHADOWS = 64
LEAST_OF_EACH = 2
LEAST_SD = 1e-6


def run(view: View, question: Membership, rng: np.random.Generator) -> Array:
    shadows, labels = question.shadows, question.labels
    own = standardised(scaled_confidence(answered(view, question), labels))
    theirs = standardised(scaled_confidence(shadows.logits, labels))
    return beside_the_prior(view, question, likelihood_ratio(own, theirs, shadows.member))


def likelihood_ratio(own: Array, theirs: Array, member: NDArray[np.bool_]) -> Array:
    """Confidences (n,) of the target model and (S, n) of the shadows, and whose member is what."""
    counts = member.sum(0)
    least_in, least_out = int(counts.min()), len(member) - int(counts.max())
    if least_out < LEAST_OF_EACH:
        raise CannotAttack(f"a target that only {least_out} shadows did not train on; wanted 2")
    outside = _normal(theirs, ~member)
    if least_in < LEAST_OF_EACH:
        offline: Array = (own - outside[0]) / outside[1]
        return offline
    return gaussian_log_ratio(own, *_normal(theirs, member), *outside)


def _normal(values: Array, chosen: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Mean and sd of every target over the chosen models; few models share one sd."""
    counts = chosen.sum(0)
    mean = np.where(chosen, values, 0).sum(0) / counts
    squares = np.where(chosen, (values - mean) ** 2, 0).sum(0)
    if len(values) < MANY_SHADOWS:
        variance = np.full_like(mean, squares.sum() / (counts - 1).sum())
    else:
        variance = squares / (counts - 1)
    return mean, np.sqrt(variance).clip(LEAST_SD)


ATTACK = Attack(
    name="membership_lira",
    summary="whether a node's label was trained on, by the likelihood ratio over shadow models",
    source="Carlini et al. 2022",
    needs=(Answers(),),
    assumes="the model's answers, the targets' labels, and shadow models on the same graph",
    adversaries=frozenset({"outsider", "server"}),
    question=Membership,
    floor=0.1,
    expected="AUC 0.96 to 0.98 on an over-trained GCN on Cora, 0.86 averaged over small silos",
    exposes=(
        "that a person was among those whose labels were trained on: at a clinic, that they "
        "were a patient"
    ),
    stopped_by="noise per person; fewer rounds; masks do not",
    run=run,
    rounds=30,
)
