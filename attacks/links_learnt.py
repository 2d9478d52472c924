"""Attacks on links by a classifier of pairs that learns on a graph with known links.

He et al. ("Stealing Links from Graph Neural Networks", USENIX Security 2021): the distances between
two nodes' rows or answers describe a pair, and a ridge logistic regression on them and their
squares is trained on the pairs of a shadow graph. Its worth is measured on shadow pairs that it was
not trained on. If it tells nothing beyond the prior, the prior is the guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from attacks.base import Array, Attack, CannotAttack, View
from attacks.evidence import lean_evidence
from attacks.links import ROWS, whiten_rows
from attacks.questions import ShadowPairsQuestion, StolenLinks
from attacks.rows import client_rounds, noise_of, pair_cosines
from securefg.foundation.ranks import average_ranks
from securefg.protocol.meanings import Answers

Pairs = NDArray[np.int64]
RIDGE, STEPS, FAR = 1e-2, 8, 4.0
LEAST_LINKS = 10
CLEAR = 3.0
"""Standard deviations above chance from which something was learnt at all."""


def learn_scores(
    question: ShadowPairsQuestion, shadow: Array, wanted: Array, known: Sequence[Array]
) -> Array:
    """Return the targets' scores by a classifier trained on the shadow graph's pairs.

    shadow and wanted are the descriptions of the shadow pairs and of the targets. known holds
    scores of the shadow pairs that need no learning. For the targets the prior stands for them.
    """
    links = shadow_links(question)
    worth, spread = _measure_worth(question, shadow, links)
    best = max((link_auc(links, scores) for scores in known), default=0.5)
    if worth < max(0.5 + CLEAR * spread, best + spread / 2) and question.prior is not None:
        return question.prior
    return lean_evidence(_train_classifier(shadow, links)(wanted), question.prior)


def _measure_worth(
    question: ShadowPairsQuestion, shadow: Array, links: NDArray[np.int64]
) -> tuple[float, float]:
    """Return the AUC on pairs of nodes none of which was trained on, and its spread at chance.

    A node that comes again is known by its row.
    """
    odd = np.isin(question.shadow_pairs, np.unique(question.shadow_pairs)[1::2])
    halves = [odd.all(1), (~odd).all(1)]
    if any(min(links[half].sum(), (1 - links[half]).sum()) < 2 for half in halves):
        return 0.5, 0.5
    half_aucs = []
    for half, other in (halves, halves[::-1]):
        scores = _train_classifier(shadow[half], links[half])(shadow[other])
        half_aucs.append(link_auc(links[other], scores))
    return float(np.mean(half_aucs)), _auc_spread(np.concatenate([links[half] for half in halves]))


def shadow_links(question: ShadowPairsQuestion) -> NDArray[np.int64]:
    """Return which pairs of the shadow graph are linked. Raise CannotAttack if either kind is too
    rare."""
    links = question.shadow_linked
    fewest = min(int(links.sum()), int((1 - links).sum()))
    if fewest < LEAST_LINKS:
        raise CannotAttack(f"{fewest} links to learn from; at least {LEAST_LINKS} are needed")
    return links


def describe_pairs(rows: Array, pairs: Pairs) -> Array:
    """Return (pairs, 7): how near two rows are, in units of the spread over nodes with a row."""
    held = rows[np.abs(rows).sum(1) > 0]
    centre = held.mean(0) if len(held) else 0.0
    size = float(np.linalg.norm(held.std(0))) + 1e-12 if len(held) else 1.0
    first, second = ((rows[pairs[:, side]] - centre) / size for side in (0, 1))
    apart = np.abs(first - second)
    lengths = [np.linalg.norm(x, axis=1) for x in (first, second)]
    product = (first * second).sum(1)
    both = lengths[0] * lengths[1]
    pair_features: Array = np.stack(
        [
            product / np.maximum(both, 1e-12),
            product,
            np.log(np.linalg.norm(apart, axis=1) + 1e-3),
            np.log(apart.sum(1) + 1e-3),
            np.log(apart.max(1) + 1e-3),
            np.log(both + 1e-4),
            np.abs(np.log(lengths[0] + 1e-6) - np.log(lengths[1] + 1e-6)),
        ],
        1,
    )
    return pair_features


def pair_entropies(probabilities: Array, pairs: Pairs) -> Array:
    """Return the sum, difference and product of the two rows' entropies."""
    each = -(probabilities * np.log(probabilities + 1e-12)).sum(1)
    first, second = each[pairs[:, 0]], each[pairs[:, 1]]
    found: Array = np.stack([first + second, np.abs(first - second), first * second], 1)
    return found


@dataclass(frozen=True)
class _Scale:
    """A scaling to mean 0 and spread 1 on the rows for which it was made."""

    mean: Array
    spread: Array

    def __call__(self, rows: Array) -> Array:
        found: Array = np.clip((rows - self.mean) / self.spread, -FAR, FAR)
        return found


def _fit_scale(rows: Array) -> _Scale:
    return _Scale(rows.mean(0), rows.std(0) + 1e-9)


def _train_classifier(rows: Array, links: NDArray[np.int64]) -> Callable[[Array], Array]:
    """Return a logistic regression, fitted by Newton's steps. Links and non-links have the same
    total weight."""
    linear = _fit_scale(rows)
    second = _fit_scale(linear(rows) ** 2)

    def shown(given: Array) -> Array:
        first = linear(given)
        return np.concatenate([first, second(first**2), np.ones((len(given), 1))], 1)

    x, share = shown(rows), links.mean()
    weight = np.where(links == 1, 0.5 / share, 0.5 / (1 - share))
    ridge = RIDGE * len(x) * np.eye(x.shape[1])
    at = np.zeros(x.shape[1])
    for _ in range(STEPS):
        likely = 1 / (1 + np.exp(-np.clip(x @ at, -30, 30)))
        slope = x.T @ (weight * (likely - links)) + ridge @ at
        at = at - np.linalg.solve((x.T * (weight * likely * (1 - likely))) @ x + ridge, slope)
    return lambda given: shown(given) @ at


def link_auc(links: NDArray[np.int64], scores: Array) -> float:
    """Return the chance that a link scores above a pair without a link."""
    ones = int(links.sum())
    ranks = average_ranks(scores)[links == 1].sum()
    return float((ranks - ones * (ones + 1) / 2) / (ones * (len(links) - ones)))


def _auc_spread(links: NDArray[np.int64]) -> float:
    """Return the standard deviation of an AUC at chance."""
    ones = int(links.sum())
    rest = len(links) - ones
    return float(np.sqrt((ones + rest + 1) / (12 * ones * rest)))


def answered_links(view: View, question: StolenLinks, rng: np.random.Generator) -> Array:
    """Score pairs by the released model's two answers, as the shadow graph taught.

    The shadow graph is a client's own shard or, for an outsider, a known part of the joint graph.
    The prior of all link games is the best likeness of two answers, and the gain is the part that
    learning adds to it.
    """
    if view.answers is None:
        raise CannotAttack("the run released no model that answers for nodes")
    shadow_links(question)
    shadow, wanted = (
        described_answers(view.answers, pairs) for pairs in (question.shadow_pairs, question.ids)
    )
    return learn_scores(
        question, shadow, wanted, pair_likenesses(view.answers, question.shadow_pairs)
    )


def described_answers(answers: Tensor, pairs: Pairs) -> Array:
    """Return descriptions of the pairs by logits and probabilities of both nodes."""
    rows = answers.double()
    logits: Array = (rows - rows.mean(1, keepdim=True)).numpy()
    probabilities: Array = rows.softmax(-1).numpy()
    parts = [describe_pairs(logits, pairs), describe_pairs(probabilities, pairs)]
    return np.concatenate([*parts, pair_entropies(probabilities, pairs)], 1)


def pair_likenesses(answers: Tensor, pairs: Pairs) -> list[Array]:
    """Return two scores without learning: answers' nearness, and their cosine above the mean."""
    rows: Array = answers.double().softmax(-1).numpy()
    near = -np.abs(rows[pairs[:, 0]] - rows[pairs[:, 1]]).sum(1)
    return [near, pair_cosines(rows - rows.mean(0), pairs)]


ANSWERED_LINKS = Attack(
    name="answered_links",
    summary="others' edges, from two nodes' answers, by a classifier that a known graph taught",
    source="He et al. 2021, with the adversary's own shard or a known part as the shadow graph",
    needs=(Answers(),),
    assumes="the released model's answers for all nodes; edges of a client's own shard, or of half "
    "of the nodes",
    adversaries=frozenset({"client", "outsider"}),
    question=StolenLinks,
    floor=0.02,
    expected="AUC 0.95 to 0.96 on Cora, where the likeness of answers has 0.93",
    exposes="that two people are connected, from predictions alone",
    stopped_by="not answering for others' nodes; answers of a label without numbers; noise on the "
    "edges; masks do not",
    run=answered_links,
    rounds=10,
)


def supervised_links(view: View, question: StolenLinks, rng: np.random.Generator) -> Array:
    """Score pairs by uploaded rows, as an accomplice's graph taught.

    One client colludes with the server. Its uploads of this run, beside its edges, show how rows of
    linked nodes look. The classifier sees the last rows, all rounds' rows, these whitened, and the
    released answers.
    """
    shadow_links(question)
    if question.shadow_client is None or question.client is None:
        raise CannotAttack("no client colludes with the server")
    shadow = described_uploads(view, question.shadow_client, question.shadow_pairs)
    wanted = described_uploads(view, question.client, question.ids)
    known = [] if view.answers is None else pair_likenesses(view.answers, question.shadow_pairs)
    return learn_scores(question, shadow, wanted, known)


def described_uploads(view: View, client: int, pairs: Pairs) -> Array:
    """Return descriptions of the pairs by the client's rows, and by answers if there are any."""
    rounds, noise = client_rounds(view, client, ROWS), noise_of(view, ROWS)
    stacked = np.concatenate([rows.double().numpy() for rows in rounds.values()], 1)
    held = np.abs(stacked).sum(1) > 0
    held &= np.isin(np.arange(len(held)), pairs)  # rows of others may be noise alone
    if held.sum() < 3:
        raise CannotAttack(f"fewer than three nodes of client {client} have rows")
    whitened = np.zeros((len(stacked), min(int(held.sum()), stacked.shape[1])))
    whitened[held] = whiten_rows(stacked[held], noise.sd if noise else 0.0)
    last = np.where(held[:, None], rounds[max(rounds)].double().numpy(), 0)
    stacked = np.where(held[:, None], stacked, 0)
    parts = [describe_pairs(rows, pairs) for rows in (last, stacked, whitened)]
    if view.answers is not None:
        parts.append(described_answers(view.answers, pairs))
    return np.concatenate(parts, 1)


SUPERVISED_LINKS = Attack(
    name="supervised_links",
    summary="a client's edges, from uploaded rows, by a classifier that an accomplice's edges "
    "taught",
    source="He et al. 2021, with a colluding client's graph as the shadow graph",
    needs=(ROWS,),
    assumes="one client's uploaded embeddings or predictions, and the edges of another client "
    "that colludes with the server",
    adversaries=frozenset({"server"}),
    question=StolenLinks,
    floor=0.1,
    expected="AUC 0.95 where whitened rows alone have 0.94, and 0.9997 on Cora",
    exposes="who is connected to whom at one client, once another client helps",
    stopped_by="noise on the rows; masks in part, since the mean of all clients is left",
    run=supervised_links,
    rounds=10,
)


ATTACKS = (ANSWERED_LINKS, SUPERVISED_LINKS)
