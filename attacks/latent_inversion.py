"""N1: a user's features from its latents, the first weights being known.

z = x W_0 gives q equations in d unknowns. With m the guess without the run, and S the covariance of
known rows about theirs, the linear minimum-mean-square-error guess is m + S W V^+ (z - m W),
V = W^T S W. Of words, which are there or not, the same evidence is added to the odds instead:
logit p_r + v w_r V^+ (z - m W), v being what a word counts when it is there. Features within 0 and
1 satisfy the equations at a point of a polytope: the linear programme min sum c_r x_r over it, with
c_r = log((1 - p_r) / p_r) from word frequencies, is the relaxed most likely set of words. Where q
is well above the number of words its solution is sparser than a chance vertex, and the true row.
Of latents that were clipped and noised, z is the most likely one given all rounds (`latent_paths`):
it falls back to m W as noise grows, and no programme is solved.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from attacks.base import Array, Attack, View
from attacks.client_rows import noise_of
from attacks.latent_paths import likeliest, paths
from attacks.latents import LATENT, first_latents, first_weights, needs_shared_start
from attacks.questions import NodeFeatures

UNSEEN = 1e-3
"""Variance granted to words that no known row has."""

SHRINK = 0.8
"""How far the sample covariance is drawn to its diagonal: far fewer rows are known than words."""

HALF_A_WORD = 0.5
"""Counts added to every word, so that no odds are zero."""


def run(view: View, question: NodeFeatures, rng: np.random.Generator) -> Array:
    weights, noise = first_weights(view).double().numpy(), noise_of(view, LATENT)
    known, prior = question.known.astype(np.float64), _prior(question)
    spread = covariance_times(known - _known_prior(question), weights, float(known.max()))
    between, expected = weights.T @ spread, prior @ weights
    if noise is not None:
        found = paths(view, question.ids)
        z = likeliest(found, noise, expected, between, np.abs(known).sum(1))
    else:
        z = first_latents(view).of(question.ids)
    evidence = (z - expected) @ np.linalg.pinv(between)
    if not is_words(known):
        linear: Array = prior + evidence @ spread.T
        return linear
    guess = more_likely(prior, evidence @ weights.T, known)
    if noise is not None or known.max() > 1 or weights.shape[1] < 2 * (known != 0).sum(1).mean():
        return guess
    share = np.clip((known != 0).mean(0), 0.5 / len(known), 1 - 0.5 / len(known))
    for i, row in enumerate(z):
        exact = programme(row, weights, np.log(1 / share - 1))
        guess[i] = guess[i] if exact is None else exact
    return guess


def _prior(question: NodeFeatures) -> Array:
    """What is guessed of the targets without the run."""
    if question.prior is not None:
        return question.prior
    return np.tile(question.known.mean(0, dtype=np.float64), (len(question.ids), 1))


def _known_prior(question: NodeFeatures) -> Array:
    """And of the known rows."""
    if question.known_prior is not None:
        return question.known_prior
    mean: Array = question.known.mean(0, dtype=np.float64)
    return mean


def covariance_times(rest: Array, weights: Array, largest: float) -> Array:
    """S W, with S between the sample covariance of what is left of known rows and its diagonal."""
    sample = rest.T @ (rest @ weights) / len(rest)
    diagonal = ((rest**2).mean(0) + UNSEEN * largest)[:, None] * weights
    found: Array = (1 - SHRINK) * sample + SHRINK * diagonal
    return found


def is_words(known: Array) -> bool:
    """Whether most entries are zero and none is negative."""
    return bool(known.min() >= 0 and (known == 0).mean() > 0.5)


def more_likely(prior: Array, evidence: Array, known: Array) -> Array:
    """Words whose odds have got this evidence, at what a word counts when it is there."""
    value = float(known[known > 0].mean())
    # Counts are added in a way that keeps the order of all words: without evidence it is the prior.
    share = prior.clip(0, value) / value
    share = (len(known) * share + HALF_A_WORD) / (len(known) + 2 * HALF_A_WORD)
    found: Array = value * expit(logit(share) + value * evidence)
    return found


def programme(z: Array, weights: Array, cost: Array) -> Array | None:
    """The relaxed most likely row that gives z, if the equations pin it down.

    A vertex that is there by chance has q entries between the bounds; the true row has fewer.
    """
    from scipy.optimize import linprog  # loaded where it is used

    found = linprog(cost, A_eq=weights.T, b_eq=z, bounds=(0, 1), method="highs")
    if found.x is None:
        return None
    solved: Array = found.x
    between = ((solved > 1e-9) & (solved < 1 - 1e-9)).sum()
    return solved if between <= 0.75 * len(z) else None


ATTACK = Attack(
    name="latent_inversion",
    summary="a user's features from its latents and the shared first weights",
    source="N1: LMMSE over all rounds, then the relaxed most likely row by linear programming",
    needs=(LATENT,),
    assumes="the latents of round 1, under noise of all rounds; the shared W_0; rows of other "
    "users from elsewhere; the graph, where the server is given it",
    adversaries=frozenset({"server"}),
    question=NodeFeatures,
    floor=0.01,
    expected="exact at q = 128; at q = 16 AUC 0.87 where neighbours' words give 0.82",
    exposes="the words of one user's own record, from a short summary of it",
    stopped_by="noise on the latents; fewer numbers per latent; first weights that are not shared",
    run=run,
    rounds=20,
    applies_to=needs_shared_start,
)
