"""A small classifier of pairs of nodes, learnt where the links are known (He et al. 2021).

A pair is described by how near its two rows are (cosine, distances, product of lengths) and, where
rows are probabilities, by their entropies. A ridge logistic regression on these and their squares
is trained on the pairs of a shadow graph. What it is worth is measured there too, on pairs that it
was not trained on: where it tells nothing beyond the prior, the prior is the guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack
from attacks.leaning import leaning
from attacks.questions import ShadowPairsQuestion
from securefg.foundation.ranks import average_ranks

Pairs = NDArray[np.int64]
RIDGE, STEPS, FAR = 1e-2, 8, 4.0
LEAST_LINKS = 10
CLEAR = 3.0
"""Standard deviations above chance from which something was learnt at all."""


def learnt(
    question: ShadowPairsQuestion, shadow: Array, wanted: Array, known: Sequence[Array]
) -> Array:
    """Scores of the targets from their descriptions, learnt on those of the shadow graph's pairs.

    known  scores of the shadow pairs that need no learning, in whose place the prior stands
    """
    links = shadow_links(question)
    worth, spread = _worth(question, shadow, links)
    best = max((auc(links, scores) for scores in known), default=0.5)
    if worth < max(0.5 + CLEAR * spread, best + spread / 2) and question.prior is not None:
        return question.prior
    return leaning(_trained(shadow, links)(wanted), question.prior)


def _worth(
    question: ShadowPairsQuestion, shadow: Array, links: NDArray[np.int64]
) -> tuple[float, float]:
    """The AUC on pairs of nodes none of which was trained on, and its spread at chance: a node that
    comes again is known by its row."""
    odd = np.isin(question.shadow_pairs, np.unique(question.shadow_pairs)[1::2])
    halves = [odd.all(1), (~odd).all(1)]
    if any(min(links[half].sum(), (1 - links[half]).sum()) < 2 for half in halves):
        return 0.5, 0.5
    found = []
    for half, other in (halves, halves[::-1]):
        scores = _trained(shadow[half], links[half])(shadow[other])
        found.append(auc(links[other], scores))
    return float(np.mean(found)), _spread(np.concatenate([links[half] for half in halves]))


def shadow_links(question: ShadowPairsQuestion) -> NDArray[np.int64]:
    """Which pairs of the shadow graph are linked; raises where there are too few of either."""
    links = question.shadow_linked
    fewest = min(int(links.sum()), int((1 - links).sum()))
    if fewest < LEAST_LINKS:
        raise CannotAttack(f"{fewest} links to learn from; at least {LEAST_LINKS} are needed")
    return links


def described(rows: Array, pairs: Pairs) -> Array:
    """(pairs, 7): how near two rows are, in units of their spread over nodes that have one."""
    held = rows[np.abs(rows).sum(1) > 0]
    centre = held.mean(0) if len(held) else 0.0
    size = float(np.linalg.norm(held.std(0))) + 1e-12 if len(held) else 1.0
    first, second = ((rows[pairs[:, side]] - centre) / size for side in (0, 1))
    apart = np.abs(first - second)
    lengths = [np.linalg.norm(x, axis=1) for x in (first, second)]
    product = (first * second).sum(1)
    both = lengths[0] * lengths[1]
    found: Array = np.stack(
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
    return found


def entropies(probabilities: Array, pairs: Pairs) -> Array:
    """Sum, difference and product of the two rows' entropies."""
    each = -(probabilities * np.log(probabilities + 1e-12)).sum(1)
    first, second = each[pairs[:, 0]], each[pairs[:, 1]]
    found: Array = np.stack([first + second, np.abs(first - second), first * second], 1)
    return found


@dataclass(frozen=True)
class _Scale:
    """Descriptions and their squares, each with mean 0 and spread 1 where it was made."""

    mean: Array
    spread: Array

    def __call__(self, rows: Array) -> Array:
        found: Array = np.clip((rows - self.mean) / self.spread, -FAR, FAR)
        return found


def _scale(rows: Array) -> _Scale:
    return _Scale(rows.mean(0), rows.std(0) + 1e-9)


def _trained(rows: Array, links: NDArray[np.int64]) -> Callable[[Array], Array]:
    """Logistic regression by Newton's steps, links and non-links of equal weight in all."""
    linear = _scale(rows)
    second = _scale(linear(rows) ** 2)

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


def auc(links: NDArray[np.int64], scores: Array) -> float:
    """The chance that a link scores above a pair without one."""
    ones = int(links.sum())
    ranks = average_ranks(scores)[links == 1].sum()
    return float((ranks - ones * (ones + 1) / 2) / (ones * (len(links) - ones)))


def _spread(links: NDArray[np.int64]) -> float:
    """The standard deviation of an AUC at chance."""
    ones = int(links.sum())
    rest = len(links) - ones
    return float(np.sqrt((ones + rest + 1) / (12 * ones * rest)))
