"""How a user's latent moves, and what all noised rounds together say of the first one.

Adam moves every stored row of W_i by the same step u_t, whatever the size of its feature, so that
z_t = z_1 + s D_t with D_t = -eta sum_{r < t} u_r, which the server computes from the gradients that
it sent, and s the sum of the user's features. What is uploaded is y_t = clip(z_t) + noise. The most
likely (z_1, s) is found by Gauss and Newton's steps from the prior. A round of whose latent
clipping leaves a share c adds c^2 of a first round's information: little, where latents move far.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, Noise, View
from attacks.latents import clip_factors, encoder_of, gradients, latents
from securefg.models.user_weights import BETAS, EPS

ROUNDS = 20
TURNS = 6
FAR = 5.0
"""Standard deviations by which residuals are larger than noise alone would make them."""


@dataclass(frozen=True)
class Paths:
    """uploads[t] (n, q) of the rounds from the first on, and moves[t] the D_t of each."""

    uploads: list[Array]
    moves: list[Array]


def adam_steps(sent: list[Array]) -> Iterator[Array]:
    """u_t of every user for the gradients it was sent, round by round."""
    first, second = np.zeros_like(sent[0]), np.zeros_like(sent[0])
    for t, gradient in enumerate(sent, 1):
        first = BETAS[0] * first + (1 - BETAS[0]) * gradient
        second = BETAS[1] * second + (1 - BETAS[1]) * gradient**2
        yield first / (1 - BETAS[0] ** t) / (np.sqrt(second / (1 - BETAS[1] ** t)) + EPS)


def paths(view: View, ids: NDArray[np.int64]) -> Paths:
    """The rounds in a row from the first, as far as the view shows them."""
    seen, sent = latents(view), gradients(view)
    count = 1
    while count < ROUNDS and count + 1 in seen and count in sent:
        count += 1
    if encoder_of(view).optimizer != "adam":
        count = 1
    uploads = [seen[t].of(ids) for t in range(1, count + 1)]
    moves = [np.zeros_like(uploads[0])]
    if count > 1:
        for step in adam_steps([sent[t].of(ids) for t in range(1, count)]):
            moves.append(moves[-1] - view.recipe.lr * step)
    return Paths(uploads, moves)


def likeliest(found: Paths, noise: Noise, mean: Array, spread: Array, sizes: Array) -> Array:
    """The z_1 of every user under N(mean, spread), with s about as large as in `sizes`.

    Users whose later rounds do not fit (weight decay outweighs their gradients) are told by their
    first round alone.
    """
    alone = Paths(found.uploads[:1], found.moves[:1])
    if len(found.uploads) == 1:
        return _newton(alone, noise, mean, spread, sizes)[0]
    joint, misfit = _newton(found, noise, mean, spread, sizes)
    numbers = len(found.uploads) * mean.shape[1]
    fits = misfit < numbers + FAR * np.sqrt(2 * numbers)
    joint[~fits] = _newton(alone, noise, mean, spread, sizes)[0][~fits]
    return joint


def _newton(
    found: Paths, noise: Noise, mean: Array, spread: Array, sizes: Array
) -> tuple[Array, Array]:
    """z_1 of every user, and the squares of its residuals in variances of the noise."""
    count, width = mean.shape
    before = np.zeros((width + 1, width + 1))
    before[:width, :width] = np.linalg.pinv(spread)
    before[width, width] = 1 / max(float(sizes.var()), 1e-12)
    start = np.concatenate([mean, np.full((count, 1), sizes.mean())], 1)
    place, misfit = start.copy(), np.zeros(count)
    for _ in range(TURNS):
        normal, pull = np.tile(before, (count, 1, 1)), (start - place) @ before
        misfit = np.zeros(count)
        for upload, move in zip(found.uploads, found.moves, strict=True):
            made, slope = _clipped(place[:, :width] + place[:, width:] * move, move, noise)
            normal += slope.transpose(0, 2, 1) @ slope / noise.sd**2
            pull += np.einsum("nij,ni->nj", slope, upload - made) / noise.sd**2
            misfit += ((upload - made) ** 2).sum(1) / noise.sd**2
        place = place + _solved(normal, pull)
    return place[:, :width], misfit


def _clipped(rows: Array, moves: Array, noise: Noise) -> tuple[Array, Array]:
    """clip(z_t), and its slope by (z_1, s)."""
    factor = clip_factors(rows, noise)
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1), 1e-300)[:, None]
    outside = np.where(factor < 1, factor, 0.0)[:, None, None]
    by_row = factor[:, None, None] * np.eye(rows.shape[1]) - outside * (
        unit[:, :, None] * unit[:, None]
    )
    by_size = np.einsum("nij,nj->ni", by_row, moves)
    return factor[:, None] * rows, np.concatenate([by_row, by_size[..., None]], 2)


def _solved(normal: Array, pull: Array) -> Array:
    """The shortest step, where rows that are all alike leave the equations open."""
    try:
        found = np.linalg.solve(normal, pull[..., None])
    except np.linalg.LinAlgError:
        found = np.linalg.pinv(normal, hermitian=True) @ pull[..., None]
    step: Array = np.asarray(found[..., 0], np.float64)
    return step
