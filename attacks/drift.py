"""N2: how many words a user has, from how far its latent moves.

With features of 0 and 1 every stored row of W_i gets the same gradient g_t, so Adam moves all of
them by the same step u_t, and the latent by the sum: z_{t+1} = z_t - eta s u_t, with s the number
of words. The server sent all g_t and can compute u_t; s is what is left. All later rounds add this
one number.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, CannotAttack, Targets, View
from attacks.client_rows import noise_of
from attacks.latent_paths import adam_steps
from attacks.latents import BACK, LATENT, encoder_of, gradients, latents, sends_weights

BEST_KNOWN = 0.02
CLEAR = 0.5
"""Standard deviation of a count of words that still tells it from the next."""


def run(view: View, targets: Targets, rng: np.random.Generator) -> Array:
    seen, sent = latents(view), gradients(view)
    last = 1
    while last in seen and last in sent and last + 1 in seen:
        last += 1
    if last == 1:
        raise CannotAttack("two rounds in a row from the first are needed (transcript_every: 1)")
    above, below = np.zeros(len(targets.ids)), np.zeros(len(targets.ids))
    for t, u in enumerate(adam_steps([sent[t].of(targets.ids) for t in range(1, last)]), 1):
        moved = seen[t + 1].of(targets.ids) - seen[t].of(targets.ids)
        above += (-moved * u).sum(1)
        below += view.recipe.lr * (u**2).sum(1)
    found: Array = above / np.maximum(below, 1e-300)
    noise = noise_of(view, LATENT)
    if noise is None or targets.prior is None:
        return found
    # A number that noise alone would move by one or more is not known: the prior is. The few that
    # are known best are guessed all the same, so that something is measured.
    spread = noise.sd * np.sqrt(2 / np.maximum(view.recipe.lr * below, 1e-300))
    known = spread <= max(CLEAR, float(np.quantile(spread, BEST_KNOWN)))
    return np.where(known, found, targets.prior)


def _needs_binary_steps(view: View) -> str | None:
    if encoder_of(view).optimizer != "adam":
        return "the steps that latents take are followed for Adam"
    return "uploaded weights give the words themselves" if sends_weights(view) else None


ATTACK = Attack(
    name="drift",
    summary="how many words a user has, from how far its latent moves",
    source="N2: z_{t+1} = z_t - eta s u_t",
    needs=(LATENT,),
    hears=(BACK,),
    assumes="latents of consecutive rounds and the gradients that were sent",
    adversaries=frozenset({"server"}),
    game="row_sizes",
    floor=0.1,
    expected="exact for users whose gradients outweigh weight decay",
    exposes="how much one user has on record: the number of words in it",
    stopped_by="noise on the latents",
    run=run,
    rounds=10,
    applies_to=_needs_binary_steps,
)
