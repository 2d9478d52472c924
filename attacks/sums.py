"""Attacks on sums by an adversary who knows everybody but the target: that of the definition.

Differential privacy is a promise against this adversary. It subtracts what all others put into a
sum. Under Gaussian noise of standard deviation s the log likelihood ratio of "the target is in it"
is (<rest, move> - |move|^2 / 2) / s^2, and no test, nor any order of several targets, is better
(Neyman and Pearson).
"""

from __future__ import annotations

import numpy as np
import torch

from attacks.base import Array, Attack, CannotAttack, View, not_seen
from attacks.questions import (
    KnownEdges,
    ReleasedOthers,
    SummedBoth,
    SummedFeatures,
    SummedLabels,
    SummedLinks,
    SummedMoments,
    SummedRecords,
    SumQuestion,
)
from securefg.protocol.meanings import Answers, Meaning, Release, Statistic

BY_CLASS, MOMENTS = Statistic(form="by_class"), Statistic(form="moments")
SUMS = (BY_CLASS, MOMENTS)
FEATURES = Statistic("features", "by_class")
NO_NOISE = 1e-3
"""The standard deviation that stands for none."""


def sum_likelihoods(view: View, question: SumQuestion, need: Meaning) -> Array:
    """Return by target how much likelier the sum is with it than without."""
    without, moves = known_rows(question)
    return likelihood_ratios(observed_sum(view, need), without, moves)


def known_rows(question: SumQuestion) -> tuple[Array, Array]:
    """Return a row per target: the sum without it, and what it adds."""
    count = len(question.ids)
    return question.sum_without.reshape(count, -1), question.moves.reshape(count, -1)


def observed_sum(view: View, need: Meaning) -> Array:
    """Return the first opened sum, the sum of the first round's uploads, or the released one."""
    opened, released = view.sums(need), view.release(need)
    plain = [message for message in view.uploads(need) if not message.masked]
    if opened:
        value = opened[0].value.double()
    elif plain:
        first = min(message.round for message in plain)
        rows = [message.value.double() for message in plain if message.round == first]
        value = torch.cat(rows).sum(0)
    elif released is not None:
        value = released.double()
    else:
        raise not_seen(need)
    found: Array = value.flatten().numpy()
    return found


def likelihood_ratios(seen: Array, without: Array, moves: Array) -> Array:
    """Return <seen - without, move> - |move|^2 / 2 by row: the log likelihood ratio times s^2."""
    found: Array = ((seen - without - moves / 2) * moves).sum(1)
    return found


def summed_features(view: View, question: SummedFeatures, rng: np.random.Generator) -> Array:
    """Score whether a node's label is in features summed by class."""
    return sum_likelihoods(view, question, BY_CLASS)


SUMMED_FEATURES = Attack(
    name="summed_features",
    summary="whether a label is in features summed by class, knowing everybody else",
    source="the definition of differential privacy; Dwork and Roth 2014, section 2.3",
    needs=(BY_CLASS,),
    assumes="the sum of round 1; all other nodes, and the targets but for whether they train",
    adversaries=frozenset({"server"}),
    question=SummedFeatures,
    floor=0.2,
    expected="AUC 1.00 on sums without noise",
    exposes="that one person's label was in a sum, if everybody else is known",
    stopped_by="noise per person in the sums; masks do not",
    run=summed_features,
    rounds=1,
)


def summed_records(view: View, question: SummedRecords, rng: np.random.Generator) -> Array:
    """Score which of two feature vectors a node has, by the sum of features."""
    return sum_likelihoods(view, question, FEATURES)


SUMMED_RECORDS = Attack(
    name="summed_records",
    summary="which of two feature vectors a node has, in a sum of features, knowing everybody else",
    source="the definition of differential privacy; Dwork and Roth 2014, section 2.3",
    needs=(FEATURES,),
    assumes="the sum of round 1; all other nodes, and two feature vectors of which one is right",
    adversaries=frozenset({"server"}),
    question=SummedRecords,
    floor=0.2,
    expected="AUC 1.00 on sums without noise",
    exposes="which of two records one person has, if everybody else is known",
    stopped_by="noise per person in the sums; masks do not",
    run=summed_records,
    rounds=1,
)


def summed_moments(view: View, question: SummedMoments, rng: np.random.Generator) -> Array:
    """Score whether a node's label is in summed second moments."""
    return sum_likelihoods(view, question, MOMENTS)


SUMMED_MOMENTS = Attack(
    name="summed_moments",
    summary="whether a label is in summed second moments, knowing everybody else",
    source="the definition of differential privacy; Dwork and Roth 2014, section 2.3",
    needs=(MOMENTS,),
    assumes="the sum of round 1; all other nodes, and the targets but for whether they train",
    adversaries=frozenset({"server"}),
    question=SummedMoments,
    floor=0.2,
    expected="AUC 1.00 on sums without noise",
    exposes="that one person's label was in a sum, if everybody else is known",
    stopped_by="noise per person in the sums; masks do not",
    run=summed_moments,
    rounds=1,
)


def summed_links(view: View, question: SummedLinks, rng: np.random.Generator) -> Array:
    """Score whether two nodes are linked, by summed second moments."""
    return sum_likelihoods(view, question, MOMENTS)


SUMMED_LINKS = Attack(
    name="summed_links",
    summary="whether two nodes are linked, in summed second moments, knowing all else",
    source="the definition of differential privacy; Dwork and Roth 2014, section 2.3",
    needs=(MOMENTS,),
    assumes="the sum of round 1, or a release that holds it; all nodes, and all other links",
    adversaries=frozenset({"server", "outsider"}),
    question=SummedLinks,
    floor=0.2,
    expected="AUC 1.00 on sums without noise, as far as the two nodes move them at all",
    exposes="that two people are connected, if all else is known",
    stopped_by="noise per edge or person in the sums; masks do not",
    run=summed_links,
    rounds=1,
)


def summed_both(view: View, question: SummedBoth, rng: np.random.Generator) -> Array:
    """Score whether a node's label is in two sums, read together.

    The noises are independent, so the log likelihood ratios add up, each over its own variance.
    """
    without, moves = known_rows(question)
    seen = [observed_sum(view, need) for need in SUMS]
    if sum(map(len, seen)) != without.shape[1]:
        raise CannotAttack("the sums are not of the shape that was made again")
    score, start = np.zeros(len(question.ids)), 0
    for need, value in zip(SUMS, seen, strict=True):
        part = slice(start, start + len(value))
        start += len(value)
        score = score + likelihood_ratios(
            value, without[:, part], moves[:, part]
        ) / _noise_variance(view, need)
    return score


def _noise_variance(view: View, need: Statistic) -> float:
    """Return the variance of the noise on every number of the sum. The clients' variances add
    up."""
    sent = view.sums(need) or view.uploads(need)
    noise = sent[0].noise
    count = sum(len(message.clients) for message in sent)
    return NO_NOISE**2 if noise is None else count * noise.sd**2


SUMMED_BOTH = Attack(
    name="summed_both",
    summary="whether a label is in both sums of a round, read together, knowing everybody else",
    source="the definition of differential privacy; Neyman and Pearson 1933",
    needs=SUMS,
    assumes="both sums of round 1; all other nodes, and the targets but for whether they train",
    adversaries=frozenset({"server"}),
    question=SummedBoth,
    floor=0.2,
    expected="AUC 1.00 on sums without noise",
    exposes="that one person's label was in the sums, if everybody else is known",
    stopped_by="noise per person in the sums, sized for both together; masks do not",
    run=summed_both,
    rounds=1,
)


def summed_labels(view: View, question: SummedLabels, rng: np.random.Generator) -> Array:
    """Return the label with which the features summed by class are likeliest."""
    count, classes = question.moves.shape[:2]
    seen, without = observed_sum(view, BY_CLASS), question.sum_without.reshape(count, -1)
    moves = question.moves.reshape(count, classes, -1)
    found = [likelihood_ratios(seen, without, moves[:, label]) for label in range(classes)]
    guess: Array = np.stack(found, 1).argmax(1).astype(np.float64)
    return guess


SUMMED_LABELS = Attack(
    name="summed_labels",
    summary="which label a node has in features summed by class, knowing everybody else",
    source="the definition of differential privacy; Dwork and Roth 2014, section 2.3",
    needs=(BY_CLASS,),
    assumes="the sum of round 1; all other nodes, and the targets but for their labels",
    adversaries=frozenset({"server"}),
    question=SummedLabels,
    floor=0.2,
    expected="all labels of nodes with features, on sums without noise",
    exposes="which label one person has, if everybody else is known",
    stopped_by="noise per person in the sums; masks do not",
    run=summed_labels,
    rounds=1,
)


def released_others(view: View, question: ReleasedOthers, rng: np.random.Generator) -> Array:
    """Score whether a node's label was in training, by all that was released.

    The adversary knows the release with the target and without it. Every released tensor gives a
    likelihood ratio along the difference. The scatter of the targets shows the noise of a tensor.
    """
    without, moves = known_rows(question)
    if sum(value.numel() for value in view.released.values()) != without.shape[1]:
        raise CannotAttack("the release is not of the shape that was made again")
    score, start = np.zeros(len(question.ids)), 0
    for value in view.released.values():
        part = slice(start, start + value.numel())
        start += value.numel()
        seen = value.double().flatten().numpy()
        score = score + _weigh_ratios(seen, without[:, part], moves[:, part])
    return score


def _weigh_ratios(seen: Array, without: Array, moves: Array) -> Array:
    """Return the ratios over the noise along a target, which is alike for all targets."""
    ratios, sizes = (
        likelihood_ratios(seen, without, moves),
        np.linalg.norm(moves, axis=1).clip(1e-12),
    )
    low, high = np.quantile(ratios / sizes + sizes / 2, [0.25, 0.75])
    weighed: Array = ratios / max(float(high - low) ** 2, 1e-12)
    return weighed


RELEASED_OTHERS = Attack(
    name="released_others",
    summary="whether a node's label was in training, from the release, knowing everybody else",
    source="the definition of differential privacy; Dwork and Roth 2014, section 2.3",
    needs=(Release(),),
    assumes="the release; all other nodes, and the targets but for whether they train",
    adversaries=frozenset({"client", "outsider"}),
    question=ReleasedOthers,
    floor=0.2,
    expected="AUC 1.00 where sums of one round without noise make the model",
    exposes="that one person's label was trained on, if everybody else is known",
    stopped_by="noise per person in what makes the release; masks do not",
    run=released_others,
    rounds=1,
)


def released_edges(view: View, question: KnownEdges, rng: np.random.Generator) -> Array:
    """Return how far the answers went from those without the edge to those with it.

    An adversary with the released model, the features and all other edges can compute both answers
    at the edge's two ends. This is the adversary of edge-level differential privacy, played on the
    answers. Noise on uploads does not help, since the graph is used when an answer is made.
    """
    if view.answers is None:
        raise CannotAttack("the run released no model that answers for nodes")
    without, moves = known_rows(question)
    seen: Array = view.answers.double().numpy()[question.ids].reshape(len(question.ids), -1)
    along = ((seen - without) * moves).sum(1)
    share: Array = along / np.square(moves).sum(1).clip(1e-12)
    return share.clip(-1, 2)


RELEASED_EDGES = Attack(
    name="released_edges",
    summary="whether an edge is in the joint graph, from answers, knowing everything else",
    source="the definition of edge-level differential privacy; Kolluri et al. 2022 on inference",
    needs=(Answers(),),
    assumes="the released model's answers at both ends, its weights, all features, and all other "
    "edges",
    adversaries=frozenset({"client", "outsider"}),
    question=KnownEdges,
    floor=0.2,
    expected="AUC 1.00 wherever answers are computed with neighbours",
    exposes="that two people are connected, if the rest of the graph is known",
    stopped_by="answers that use no neighbours, or that stay at home; noise on the edges; neither "
    "masks nor noise on uploads",
    run=released_edges,
    rounds=1,
)


ATTACKS = (
    SUMMED_FEATURES,
    SUMMED_RECORDS,
    SUMMED_MOMENTS,
    SUMMED_LINKS,
    SUMMED_BOTH,
    SUMMED_LABELS,
    RELEASED_OTHERS,
    RELEASED_EDGES,
)
