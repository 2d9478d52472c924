"""N2: how many words a user has, from how far its latent moves.

With features of 0 and 1 every stored row of W_i gets the same gradient g_t, so Adam moves all of
them by the same step u_t, and the latent by the sum: z_{t+1} = z_t - eta s u_t, with s the number
of words. The server sent all g_t and can compute u_t; s is what is left. All later rounds add this
one number. Under noise every number is asked how likely it makes the clipped and noised uploads,
and one that is not clearly likelier than the prior's is not guessed.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, CannotAttack, Noise, View
from attacks.client_rows import noise_of
from attacks.latent_paths import Paths, paths
from attacks.latents import BACK, LATENT, clip_factors, encoder_of, sends_weights
from attacks.questions import RowSizes

BEST_KNOWN = 0.01
CLEAR = 4.0
"""Log likelihood ratio against the prior's number from which another one is guessed."""
OPEN = 0.9
"""Share of the clip up to which a first latent is taken for one that was not clipped."""


def run(view: View, question: RowSizes, rng: np.random.Generator) -> Array:
    seen = paths(view, question.ids)
    if len(seen.uploads) == 1:
        raise CannotAttack("two rounds in a row from the first are needed (transcript_every: 1)")
    noise = noise_of(view, LATENT)
    if noise is None or question.prior is None:
        return by_least_squares(seen)
    return by_likelihood(seen, noise, question.prior)


def by_least_squares(seen: Paths) -> Array:
    """s of z_{t+1} - z_t = s (D_{t+1} - D_t), over all rounds."""
    moved, step = np.diff(seen.uploads, axis=0), np.diff(seen.moves, axis=0)
    found: Array = (moved * step).sum((0, 2)) / np.maximum((step**2).sum((0, 2)), 1e-300)
    return found


def by_likelihood(seen: Paths, noise: Noise, prior: Array) -> Array:
    """The likeliest number where it is clear, else the prior's; the few that are clearest are
    guessed all the same, so that something is measured."""
    numbers = np.arange(1, int(4 * prior.max()) + 20)
    likely = np.stack([_log_likelihood(seen, noise, np.full_like(prior, s)) for s in numbers], 1)
    ratio = likely.max(1) - _log_likelihood(seen, noise, prior)
    size = np.sqrt(np.maximum((seen.uploads[0] ** 2 - noise.sd**2).sum(1), 0))
    ratio[size > OPEN * noise.clip_l2] = 0.0  # of such a one the start is not known
    clear = (ratio > 0) & (ratio >= min(CLEAR, np.quantile(ratio, 1 - BEST_KNOWN)))
    found: Array = np.where(clear, numbers[likely.argmax(1)], prior)
    return found


def _log_likelihood(seen: Paths, noise: Noise, number: Array) -> Array:
    """Of the rounds after the first, whose upload stands for the latent that it began at: its noise
    is in every prediction too."""
    squares = np.zeros(len(number))
    for upload, move in zip(seen.uploads[1:], seen.moves[1:], strict=True):
        latent = seen.uploads[0] + number[:, None] * move
        squares += ((upload - clip_factors(latent, noise)[:, None] * latent) ** 2).sum(1)
    found: Array = -squares / (4 * noise.sd**2)
    return found


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
    question=RowSizes,
    floor=0.1,
    expected="exact for users whose gradients outweigh weight decay",
    exposes="how much one user has on record: the number of words in it",
    stopped_by="noise on the latents",
    run=run,
    rounds=10,
    applies_to=_needs_binary_steps,
)
