"""N1: a user's features from its first latent, the first weights being known.

z = x W_0 gives q equations in d unknowns. With mean and covariance of features known from elsewhere
the linear minimum-mean-square-error guess is mu + S W (W^T S W)^+ (z - mu W). Features within 0 and
1 satisfy the equations at a point of a polytope: the linear programme min sum c_r x_r over it, with
c_r = log((1 - p_r) / p_r) from word frequencies, is the relaxed most likely set of words. Where q
is well above the number of words its solution is sparser than a chance vertex, and the true row.
Of a latent that was clipped and noised, W is as much smaller as known rows would be clipped, and
sd^2 I is added to W^T S W: the guess falls back to mu as noise grows, and no programme is solved.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from attacks.base import Array, Attack, CannotAttack, Targets, View
from attacks.client_rows import noise_of
from attacks.latents import (
    LATENT,
    clip_factors,
    first_latents,
    first_weights,
    needs_shared_start,
)

UNSEEN = 1e-3
"""Variance granted to words that no known row has."""

SHRINK = 0.8
"""How far the sample covariance is drawn to its diagonal: far fewer rows are known than words."""


def run(view: View, targets: Targets, rng: np.random.Generator) -> Array:
    if targets.known is None:
        raise CannotAttack("no known rows to learn mean and covariance from")
    weights, noise = first_weights(view).double().numpy(), noise_of(view, LATENT)
    z = first_latents(view).of(targets.ids)
    known = targets.known.astype(np.float64)
    if noise is not None:
        return lmmse(z, weights * clip_factors(known @ weights, noise).mean(), known, noise.sd)
    guess = lmmse(z, weights, known)
    words = (known != 0).sum(1).mean()
    if known.min() < 0 or known.max() > 1 or weights.shape[1] < 2 * words:
        return guess
    share = np.clip((known != 0).mean(0), 0.5 / len(known), 1 - 0.5 / len(known))
    for i, row in enumerate(z):
        exact = programme(row, weights, np.log(1 / share - 1))
        guess[i] = guess[i] if exact is None else exact
    return guess


def lmmse(z: Array, weights: Array, known: Array, noise_sd: float = 0.0) -> Array:
    """mu + S W (W^T S W + sd^2 I)^+ (z - mu W), with S between the sample covariance and its
    diagonal."""
    mean, centred = known.mean(0), known - known.mean(0)
    sample = centred.T @ (centred @ weights) / len(known)
    diagonal = (centred.var(0) + UNSEEN * known.max())[:, None] * weights
    spread = (1 - SHRINK) * sample + SHRINK * diagonal
    gain = spread @ np.linalg.pinv(weights.T @ spread + noise_sd**2 * np.eye(weights.shape[1]))
    guess: Array = mean + (z - mean @ weights) @ gain.T
    return guess


def programme(z: Array, weights: Array, cost: Array) -> Array | None:
    """The relaxed most likely row that gives z, if the equations pin it down.

    A vertex that is there by chance has q entries between the bounds; the true row has fewer.
    """
    found = linprog(cost, A_eq=weights.T, b_eq=z, bounds=(0, 1), method="highs")
    if found.x is None:
        return None
    solved: Array = found.x
    between = ((solved > 1e-9) & (solved < 1 - 1e-9)).sum()
    return solved if between <= 0.75 * len(z) else None


ATTACK = Attack(
    name="latent_inversion",
    summary="a user's features from its first latent and the shared first weights",
    source="N1: LMMSE, then the relaxed most likely row by linear programming",
    needs=(LATENT,),
    assumes="the latents of round 1; the shared W_0; rows of other users from elsewhere",
    adversaries=frozenset({"server"}),
    game="node_features",
    floor=0.01,
    expected="exact at q = 128; at q = 16 AUC 0.87 where word frequency gives 0.82",
    exposes="the words of one user's own record, from a short summary of it",
    stopped_by="noise on the latents; fewer numbers per latent; first weights that are not shared",
    run=run,
    rounds=1,
    applies_to=needs_shared_start,
)
