"""Was this node's label trained on? The likelihood ratio of what is said of it and its neighbours.

Whether a label was used shows in the answers for its node and, since a network mixes neighbours, in
those for the nodes around it. Over models that differ in who else was a member the Bayes-optimal
score is log p(answers | in) - log p(answers | out). Both are taken as normals over shadow models
with one covariance for all targets; the shift of a target's mean is drawn halfway to the mean shift
of all, since every target has few shadows of its own. Lassila et al., "Practical Bayes-Optimal
Membership Inference Attacks" 2025 (G-BASE), have the idea of neighbourhoods; derived here.
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
from attacks.neighbour_answers import said_around
from attacks.questions import Membership
from securefg.protocol.meanings import Answers

SHRINK = 0.5
LEAST_OF_EACH = 2
TRACE = 1e-6


def run(view: View, question: Membership, rng: np.random.Generator) -> Array:
    shadows, labels = question.shadows, question.labels
    own = [standardised(scaled_confidence(answered(view, question), labels))]
    theirs = [standardised(scaled_confidence(shadows.logits, labels))]
    if shadows.around is not None and question.edges is not None and view.answers is not None:
        around = said_around(view.answers.numpy(), question.edges, question.ids)
        own.append(standardised(scaled_confidence(around, labels)))
        theirs.append(standardised(scaled_confidence(shadows.around, labels)))
    scores = log_ratio(np.stack(own, -1), np.stack(theirs, -1), shadows.member)
    return beside_the_prior(view, question, scores)


def log_ratio(own: Array, theirs: Array, member: NDArray[np.bool_]) -> Array:
    """Of signs (n, k) of the target model, with (S, n, k) of the shadows: two normals apart by d
    with a common covariance C have the ratio (x - middle) C^-1 d."""
    counts = member.sum(0)
    if min(int(counts.min()), len(member) - int(counts.max())) < LEAST_OF_EACH:
        raise CannotAttack("a target that fewer than 2 shadows did, or did not, train on")
    inside = np.where(member[..., None], theirs, 0).sum(0) / counts[:, None]
    outside = np.where(member[..., None], 0, theirs).sum(0) / (len(member) - counts)[:, None]
    rest = np.where(member[..., None], theirs - inside, theirs - outside).reshape(-1, own.shape[1])
    spread = rest.T @ rest / len(rest) + TRACE * np.eye(own.shape[1])
    shift = (1 - SHRINK) * (inside - outside) + SHRINK * (inside - outside).mean(0)
    found: Array = (np.linalg.solve(spread, (own - (inside + outside) / 2).T).T * shift).sum(1)
    return found


ATTACK = Attack(
    name="membership_bayes",
    summary="whether a node's label was trained on, from answers for it and its neighbours",
    source="derived here, after Lassila et al. 2025 (G-BASE)",
    needs=(Answers(),),
    assumes="the model's answers, the targets' labels, the graph, and shadow models on it",
    adversaries=frozenset({"outsider", "server"}),
    question=Membership,
    floor=0.1,
    expected="as LiRA, a few points above or below: 0.80 and 0.76 where LiRA has 0.78 and 0.77",
    exposes="that a person was among those whose labels were trained on",
    stopped_by="noise per person; fewer rounds; masks do not",
    run=run,
    rounds=30,
)
