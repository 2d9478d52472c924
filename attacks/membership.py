"""Was a node's label trained on? Attacks that read how sure a model is of the label.

An adversary who may query the released model learns its logits. A server that is sent predictions
has more: every client's, right after the client trained on its own labels.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from attacks.base import AS_IT_IS, Array, Attack, CannotAttack, View
from attacks.confidence import log_confidence, scaled_confidence, standardise_confidences
from attacks.evidence import gaussian_log_ratio, largest_shift, lean_evidence
from attacks.questions import Membership, Question
from securefg.protocol.meanings import Answers, Predictions, Weights

ANSWER_ROUNDS = 5


def answer_targets(view: View, question: Question) -> Array:
    """Return logits, or logs of probabilities, of every target, (n, C)."""
    if view.answers is None:
        raise CannotAttack("the run released no model that answers for nodes")
    rows = view.answers[question.ids].double()
    uploaded = _uploaded_confidences(view)
    if uploaded is not None:
        known = torch.isfinite(uploaded[question.ids]).all(1, keepdim=True)
        rows = torch.where(known, uploaded[question.ids], rows.log_softmax(-1))
    found: Array = rows.numpy()
    return found


def _uploaded_confidences(view: View) -> Tensor | None:
    """Return the mean of log P over a node's holders and the last rounds, NaN if nobody holds the
    node.

    Only predictions that left unchanged count, because noisy predictions say less than the released
    model. Return None if there are none.
    """
    if view.adversary.kind != "server":
        return None
    sent = view.uploads(Predictions("nodes"))
    plain = [m for m in sent if m.rule == AS_IT_IS and not m.masked]
    if not plain:
        return None
    last = sorted({m.round for m in plain})[-ANSWER_ROUNDS:]
    total: Tensor | None = None
    for message in (m for m in plain if m.round in last):
        held = (message.value.sum(-1, keepdim=True) > 0).double()
        logs = held * message.value.double().clamp_min(1e-12).log()
        both = torch.cat([logs, held], -1).sum(0)
        total = both if total is None else total + both
    assert total is not None
    return total[:, :-1] / total[:, -1:]


def beside_the_prior(view: View, question: Question, scores: Array) -> Array:
    """Return the scores, weighed by how much noise on the model's making lets answers tell."""
    noises = [view.noise[place] for place in view.places(Weights()) if place in view.noise]
    if not noises or view.training is None:
        return scores
    releases = view.training.rounds * view.public.num_clients
    return lean_evidence(
        scores, question.prior, largest_shift(noises[0], share_of_one(view, question), releases)
    )


def share_of_one(view: View, question: Question) -> float:
    """Return the share of a client's clipped update that one member pulls, all pulling apart."""
    each = len(question.ids) / max(view.public.num_clients, 1)
    return min(1.0, math.sqrt(1 / each))


def links_of(
    nodes: NDArray[np.int64], edges: NDArray[np.int64], num_nodes: int
) -> sparse.csr_matrix:
    """Return (n, all nodes): 1 for every neighbour of a node, in either direction."""
    shape = (num_nodes, num_nodes)
    links = sparse.csr_matrix((np.ones(edges.shape[1]), (edges[0], edges[1])), shape=shape)
    links = (links + links.T)[nodes]
    links.data[:] = 1.0
    return links


def said_around(
    logits: NDArray[np.floating], links: sparse.csr_matrix, nodes: NDArray[np.int64]
) -> Array:
    """Return (n, C): the mean of log p over every node's neighbours, its own if it has none."""
    logs = torch.from_numpy(np.asarray(logits, np.float64)).log_softmax(1).numpy()
    counts = np.asarray(links.sum(1))
    found: Array = np.where(counts > 0, (links @ logs) / np.maximum(counts, 1), logs[nodes])
    return found


def membership_loss(view: View, question: Membership, rng: np.random.Generator) -> Array:
    """Return -CE(f(x), y): a model is surer of what it has seen.

    Yeom et al., "Privacy Risk in Machine Learning: Analyzing the Connection to Overfitting", CSF
    2018. It needs no shadow models and is the floor for attacks that do.
    """
    scores = log_confidence(answer_targets(view, question), question.labels)
    return beside_the_prior(view, question, scores)


MEMBERSHIP_LOSS = Attack(
    name="membership_loss",
    summary="whether a node's label was trained on, from the model's loss on it",
    source="Yeom et al. 2018",
    needs=(Answers(),),
    assumes="the released model's answers, and the targets' labels",
    adversaries=frozenset({"outsider", "server"}),
    question=Membership,
    floor=0.05,
    expected="AUC 0.88 to 0.89 on an over-trained GCN on Cora, 0.74 averaged over small silos",
    exposes="that a person was among those whose labels were trained on",
    stopped_by="noise per person; fewer rounds; masks do not",
    run=membership_loss,
    rounds=30,
)


MANY_SHADOWS = 64
LEAST_OF_EACH = 2
LEAST_SD = 1e-6


def membership_lira(view: View, question: Membership, rng: np.random.Generator) -> Array:
    """Return the log likelihood ratio of the model's confidence (LiRA).

    Carlini et al., "Membership Inference Attacks From First Principles", S&P 2022. Over shadow
    models the confidence phi = log p_y - log sum_{c != y} p_c of a target is about normal, apart
    for those that trained on it and those that did not. The score is the log ratio of the two
    densities at the target model's phi. If a target was never in (or never out of) a shadow's
    training set, the offline form counts: how far phi lies above what the other shadows say. Below
    64 shadows the variances are shared by all targets. Confidences are put on a common scale first
    (`standardised`).
    """
    shadows, labels = question.shadows, question.labels
    own = standardise_confidences(scaled_confidence(answer_targets(view, question), labels))
    theirs = standardise_confidences(shadows.confidence)
    return beside_the_prior(view, question, likelihood_ratio(own, theirs, shadows.member))


def likelihood_ratio(target_confidence: Array, theirs: Array, member: NDArray[np.bool_]) -> Array:
    """Return the ratio of confidences (n,) of the target model, given (S, n) of the shadows and
    whose member each target is."""
    counts = member.sum(0)
    least_in, least_out = int(counts.min()), len(member) - int(counts.max())
    if least_out < LEAST_OF_EACH:
        raise CannotAttack(f"a target that only {least_out} shadows did not train on; wanted 2")
    outside = _fit_normal(theirs, ~member)
    if least_in < LEAST_OF_EACH:
        offline: Array = (target_confidence - outside[0]) / outside[1]
        return offline
    return gaussian_log_ratio(target_confidence, *_fit_normal(theirs, member), *outside)


def _fit_normal(values: Array, chosen: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return mean and sd of every target over the chosen models. Few models share one sd."""
    counts = chosen.sum(0)
    mean = np.where(chosen, values, 0).sum(0) / counts
    squares = np.where(chosen, (values - mean) ** 2, 0).sum(0)
    if len(values) < MANY_SHADOWS:
        variance = np.full_like(mean, squares.sum() / (counts - 1).sum())
    else:
        variance = squares / (counts - 1)
    return mean, np.sqrt(variance).clip(LEAST_SD)


MEMBERSHIP_LIRA = Attack(
    name="membership_lira",
    summary="whether a node's label was trained on, by the likelihood ratio over shadow models",
    source="Carlini et al. 2022",
    needs=(Answers(),),
    assumes="the model's answers, the targets' labels, and shadow models on the same graph",
    adversaries=frozenset({"outsider", "server"}),
    question=Membership,
    floor=0.1,
    expected="AUC 0.96 to 0.98 on an over-trained GCN on Cora, 0.86 averaged over small silos",
    exposes="that a person was among those whose labels were trained on",
    stopped_by="noise per person; fewer rounds; masks do not",
    run=membership_lira,
    rounds=30,
)


OFFLINE_A = 0.3
GAMMA = 1.0


def membership_rmia(view: View, question: Membership, rng: np.random.Generator) -> Array:
    """Return how surprising the model's confidence is against peers (RMIA, offline).

    Zarifzadeh, Liu and Shokri, "Low-Cost High-Power Membership Inference Attacks", ICML 2024. With
    p(x) = ((1 + a) p_out(x) + (1 - a)) / 2 from shadows that did not train on x, the score of x is
    the share of peers z with (p(x | model) / p(x)) / (p(z | model) / p(z)) >= gamma. The peers are
    the other targets: nobody else's label is known.
    """
    shadows, labels = question.shadows, question.labels
    own = _to_probability(scaled_confidence(answer_targets(view, question), labels))
    theirs = _to_probability(shadows.confidence)
    return beside_the_prior(view, question, share_of_peers(own, theirs, shadows.member))


def share_of_peers(target_confidence: Array, theirs: Array, member: NDArray[np.bool_]) -> Array:
    """Return the score of p_y (n,) of the target model, given (S, n) of the shadows and whose
    member each target is."""
    outside = ~member
    if outside.sum(0).min() < 1:
        raise CannotAttack("a target that every shadow trained on; wanted one that did not")
    p_out = np.where(outside, theirs, 0).sum(0) / outside.sum(0)
    ratio = target_confidence / (((1 + OFFLINE_A) * p_out + (1 - OFFLINE_A)) / 2)
    beaten: Array = np.searchsorted(np.sort(ratio), ratio / GAMMA, side="right") / len(ratio)
    return beaten


def _to_probability(confidence: Array) -> Array:
    """Return p_y = 1 / (1 + exp(-phi)) of confidences on a common scale."""
    found: Array = 1 / (1 + np.exp(-standardise_confidences(confidence)))
    return found


MEMBERSHIP_RMIA = Attack(
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
    run=membership_rmia,
    rounds=30,
)


SHRINK = 0.5
TRACE = 1e-6


def membership_bayes(view: View, question: Membership, rng: np.random.Generator) -> Array:
    """Return the likelihood ratio of the answers for a node and for its neighbours.

    Whether a label was used shows in the answers for its node and, since a network mixes
    neighbours, in those for the nodes around it. Over models that differ in who else was a member
    the Bayes-optimal score is log p(answers | in) - log p(answers | out). Both are taken as normals
    over shadow models with one covariance for all targets. The shift of a target's mean is drawn
    halfway to the mean shift of all, since every target has few shadows of its own. Lassila et al.,
    "Practical Bayes-Optimal Membership Inference Attacks" 2025 (G-BASE), have the idea of
    neighbourhoods. The score was derived here.
    """
    shadows, labels = question.shadows, question.labels
    target_scores = [
        standardise_confidences(scaled_confidence(answer_targets(view, question), labels))
    ]
    theirs = [standardise_confidences(shadows.confidence)]
    if shadows.around is not None and view.answers is not None:
        links = links_of(question.ids, question.edges, len(view.answers))
        around = said_around(view.answers.numpy(), links, question.ids)
        target_scores.append(standardise_confidences(scaled_confidence(around, labels)))
        theirs.append(standardise_confidences(shadows.confidence_around))
    scores = log_ratio(np.stack(target_scores, -1), np.stack(theirs, -1), shadows.member)
    return beside_the_prior(view, question, scores)


def log_ratio(target_scores: Array, theirs: Array, member: NDArray[np.bool_]) -> Array:
    """Return (x - middle) C^-1 d, the ratio of two normals apart by d with a common covariance C.

    target_scores  signs (n, k) of the target model
    theirs         signs (S, n, k) of the shadows
    member         (S, n) whether the target was in the shadow's training set
    """
    counts = member.sum(0)
    if min(int(counts.min()), len(member) - int(counts.max())) < LEAST_OF_EACH:
        raise CannotAttack("a target that fewer than 2 shadows did, or did not, train on")
    inside = np.where(member[..., None], theirs, 0).sum(0) / counts[:, None]
    outside = np.where(member[..., None], 0, theirs).sum(0) / (len(member) - counts)[:, None]
    rest = np.where(member[..., None], theirs - inside, theirs - outside).reshape(
        -1, target_scores.shape[1]
    )
    spread = rest.T @ rest / len(rest) + TRACE * np.eye(target_scores.shape[1])
    shift = (1 - SHRINK) * (inside - outside) + SHRINK * (inside - outside).mean(0)
    found: Array = (
        np.linalg.solve(spread, (target_scores - (inside + outside) / 2).T).T * shift
    ).sum(1)
    return found


MEMBERSHIP_BAYES = Attack(
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
    run=membership_bayes,
    rounds=30,
)


ATTACKS = (MEMBERSHIP_LOSS, MEMBERSHIP_LIRA, MEMBERSHIP_RMIA, MEMBERSHIP_BAYES)
