"""Latents x W of clients that are single nodes, and what they tell of a user's features.

Every client makes its latent by a layer of its own. The first W often comes from the public seed,
and the server knows the gradients that it sent back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from torch import Tensor

from attacks.base import Array, Attack, CannotAttack, Noise, View
from attacks.questions import NodeFeatures, RowSizes
from attacks.rows import Rows, by_round, is_words, noise_of
from securefg.models.user_weights import BETAS, EPS
from securefg.protocol.meanings import Gradient, Layout, NodeRows, Weights

LATENT = NodeRows("latent", "client")
BACK = Gradient("latent")


def encoder_of(view: View) -> Layout:
    """Return the layout of the layer by which every client makes its latent."""
    for place in view.places(LATENT):
        meaning = view.meanings[place]
        if isinstance(meaning, NodeRows):
            return view.network(meaning.encoder)
    raise CannotAttack("no latents cross")


def first_weights(view: View) -> Tensor:
    """Return W_0, (inputs, outputs), alike for all clients and drawn from the agreed seed."""
    encoder = encoder_of(view)
    if encoder.initial is None:
        raise CannotAttack("every client draws its own first weights, which nobody else knows")
    return encoder.part(encoder.initial(), encoder.inputs[0])


def uploaded_latents(view: View) -> dict[int, Rows]:
    """Return the uploaded latents, by round."""
    return by_round(view.best_rows(LATENT))


def sent_gradients(view: View) -> dict[int, Rows]:
    """Return the gradients that the server sent back, by round."""
    return by_round(view.downloads(BACK))


def first_latents(view: View) -> Rows:
    """Return the latents of round 1, made with W_0."""
    found = uploaded_latents(view)
    if 1 not in found:
        raise CannotAttack("the latents of round 1 are not in the view")
    return found[1]


def clip_factors(rows: Array, noise: Noise | None) -> Array:
    """Return the factor by which clipping shortens every row."""
    size = np.linalg.norm(rows, axis=1)
    clip = math.inf if noise is None else noise.clip_l2
    found: Array = np.minimum(1.0, clip / np.maximum(size, 1e-300))
    return found


def needs_shared_start(view: View) -> str | None:
    """Return None (for `applies_to`) where the first weights are shared."""
    if encoder_of(view).initial is None:
        return "every client draws its own first weights, which nobody else knows"
    return None


def sends_weights(view: View) -> bool:
    """Return whether clients upload the layer itself beside the latents."""
    return bool(view.uploads(Weights()) or view.sums(Weights()))


PATH_ROUNDS = 20
TURNS = 6
FAR_SDS = 5.0
"""Standard deviations by which residuals are larger than noise alone would make them."""


@dataclass(frozen=True)
class Paths:
    """A record of how latents move: uploads[t] (n, q) of the rounds from the first on, and
    moves[t], their D_t.

    Adam moves every stored row of W_i by the same step u_t, whatever the size of its feature, so
    that z_t = z_1 + s D_t with D_t = -eta sum_{r < t} u_r. The server computes D_t from the
    gradients that it sent. The number s is the sum of the user's features. The upload is y_t =
    clip(z_t) + noise.
    """

    uploads: list[Array]
    moves: list[Array]


def adam_steps(sent: list[Array]) -> Iterator[Array]:
    """Yield the step u_t of every user for the gradients that it was sent, round by round."""
    first, second = np.zeros_like(sent[0]), np.zeros_like(sent[0])
    for t, gradient in enumerate(sent, 1):
        first = BETAS[0] * first + (1 - BETAS[0]) * gradient
        second = BETAS[1] * second + (1 - BETAS[1]) * gradient**2
        yield first / (1 - BETAS[0] ** t) / (np.sqrt(second / (1 - BETAS[1] ** t)) + EPS)


def latent_paths(view: View, ids: NDArray[np.int64]) -> Paths:
    """Return the rounds in a row from the first, as far as the view shows them."""
    seen, sent = uploaded_latents(view), sent_gradients(view)
    count = 1
    while count < PATH_ROUNDS and count + 1 in seen and count in sent:
        count += 1
    if encoder_of(view).optimizer != "adam":
        count = 1
    uploads = [seen[t].rows_of(ids) for t in range(1, count + 1)]
    moves = [np.zeros_like(uploads[0])]
    if count > 1:
        for step in adam_steps([sent[t].rows_of(ids) for t in range(1, count)]):
            moves.append(moves[-1] - view.recipe.lr * step)
    return Paths(uploads, moves)


def likeliest_latents(
    paths: Paths, noise: Noise, mean: Array, spread: Array, sizes: Array
) -> Array:
    """Return the likeliest z_1 of every user under N(mean, spread), with s about as in `sizes`.

    (z_1, s) is found by Gauss and Newton's steps from the prior. A round of whose latent clipping
    leaves a share c adds c^2 of a first round's information: little, where latents move far. Users
    whose later rounds do not fit (weight decay outweighs their gradients) are judged by their first
    round alone.
    """
    alone = Paths(paths.uploads[:1], paths.moves[:1])
    if len(paths.uploads) == 1:
        return _newton_step(alone, noise, mean, spread, sizes)[0]
    joint, misfit = _newton_step(paths, noise, mean, spread, sizes)
    numbers = len(paths.uploads) * mean.shape[1]
    fits = misfit < numbers + FAR_SDS * np.sqrt(2 * numbers)
    joint[~fits] = _newton_step(alone, noise, mean, spread, sizes)[0][~fits]
    return joint


def _newton_step(
    paths: Paths, noise: Noise, mean: Array, spread: Array, sizes: Array
) -> tuple[Array, Array]:
    """Return z_1 of every user, and the squares of its residuals in variances of the noise."""
    count, width = mean.shape
    before = np.zeros((width + 1, width + 1))
    before[:width, :width] = np.linalg.pinv(spread)
    before[width, width] = 1 / max(float(sizes.var()), 1e-12)
    start = np.concatenate([mean, np.full((count, 1), sizes.mean())], 1)
    place, misfit = start.copy(), np.zeros(count)
    for _ in range(TURNS):
        normal, pull = np.tile(before, (count, 1, 1)), (start - place) @ before
        misfit = np.zeros(count)
        for upload, move in zip(paths.uploads, paths.moves, strict=True):
            made, slope = _clip_latents(place[:, :width] + place[:, width:] * move, move, noise)
            normal += slope.transpose(0, 2, 1) @ slope / noise.sd**2
            pull += np.einsum("nij,ni->nj", slope, upload - made) / noise.sd**2
            misfit += ((upload - made) ** 2).sum(1) / noise.sd**2
        place = place + _solve_normal(normal, pull)
    return place[:, :width], misfit


def _clip_latents(rows: Array, moves: Array, noise: Noise) -> tuple[Array, Array]:
    """Return clip(z_t), and its slope by (z_1, s)."""
    factor = clip_factors(rows, noise)
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1), 1e-300)[:, None]
    outside = np.where(factor < 1, factor, 0.0)[:, None, None]
    by_row = factor[:, None, None] * np.eye(rows.shape[1]) - outside * (
        unit[:, :, None] * unit[:, None]
    )
    by_size = np.einsum("nij,nj->ni", by_row, moves)
    return factor[:, None] * rows, np.concatenate([by_row, by_size[..., None]], 2)


def _solve_normal(normal: Array, pull: Array) -> Array:
    """Return the shortest step that solves the normal equations. Equal rows leave the equations
    open."""
    try:
        found = np.linalg.solve(normal, pull[..., None])
    except np.linalg.LinAlgError:
        found = np.linalg.pinv(normal, hermitian=True) @ pull[..., None]
    step: Array = np.asarray(found[..., 0], np.float64)
    return step


BEST_KNOWN = 0.01
CLEAR_RATIO = 4.0
"""Log likelihood ratio against the prior's number from which another one is guessed."""
OPEN_SHARE = 0.9
"""Share of the clip up to which a first latent is taken for one that was not clipped."""


def drift(view: View, question: RowSizes, rng: np.random.Generator) -> Array:
    """Return how many words each user has, from how far its latent moves (N2).

    With features of 0 and 1 every stored row of W_i gets the same gradient g_t, so Adam moves all
    of them by the same step u_t, and the latent by the sum: z_{t+1} = z_t - eta s u_t, with s the
    number of words. The server sent all g_t and can compute u_t, which leaves s. All later rounds
    add this one number. Under noise, every number is rated by how likely it makes the clipped and
    noised uploads. A number that is not clearly likelier than the prior's is not guessed.
    """
    seen = latent_paths(view, question.ids)
    if len(seen.uploads) == 1:
        raise CannotAttack("two rounds in a row from the first are needed (transcript_every: 1)")
    noise = noise_of(view, LATENT)
    if noise is None or question.prior is None:
        return by_least_squares(seen)
    return by_likelihood(seen, noise, question.prior)


def by_least_squares(seen: Paths) -> Array:
    """Return the s of z_{t+1} - z_t = s (D_{t+1} - D_t), over all rounds."""
    moved, step = np.diff(seen.uploads, axis=0), np.diff(seen.moves, axis=0)
    found: Array = (moved * step).sum((0, 2)) / np.maximum((step**2).sum((0, 2)), 1e-300)
    return found


def by_likelihood(seen: Paths, noise: Noise, prior: Array) -> Array:
    """Return the likeliest number where it is clear, else the prior's.

    The few numbers that are clearest are guessed all the same, so that something is measured.
    """
    numbers = np.arange(1, int(4 * prior.max()) + 20)
    likely = np.stack([_log_likelihood(seen, noise, np.full_like(prior, s)) for s in numbers], 1)
    ratio = likely.max(1) - _log_likelihood(seen, noise, prior)
    size = np.sqrt(np.maximum((seen.uploads[0] ** 2 - noise.sd**2).sum(1), 0))
    ratio[size > OPEN_SHARE * noise.clip_l2] = 0.0  # of such a one the start is not known
    clear = (ratio > 0) & (ratio >= min(CLEAR_RATIO, np.quantile(ratio, 1 - BEST_KNOWN)))
    found: Array = np.where(clear, numbers[likely.argmax(1)], prior)
    return found


def _log_likelihood(seen: Paths, noise: Noise, number: Array) -> Array:
    """Return the log likelihood of the rounds after the first.

    The first round's upload stands for the latent that it began at, so its noise is in every
    prediction too.
    """
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


DRIFT = Attack(
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
    run=drift,
    rounds=10,
    applies_to=_needs_binary_steps,
)


UNSEEN = 1e-3
"""Variance granted to words that no known row has."""

SHRINK = 0.8
"""How far the sample covariance is drawn to its diagonal: far fewer rows are known than words."""

HALF_A_WORD = 0.5
"""Counts added to every word, so that no odds are zero."""


def latent_inversion(view: View, question: NodeFeatures, rng: np.random.Generator) -> Array:
    """Return a guess of every user's features from its latents and the known first weights (N1).

    z = x W_0 gives q equations in d unknowns. With m the guess without the run, and S the
    covariance of known rows about theirs, the linear minimum-mean-square-error guess is m + S W V^+
    (z - m W), V = W^T S W. For words, which are present or absent, the same evidence is added to
    the odds instead: logit p_r + v w_r V^+ (z - m W), v being the value of a word that is present.
    Features within 0 and 1 satisfy the equations at a point of a polytope: the linear programme min
    sum c_r x_r over it, with c_r = log((1 - p_r) / p_r) from word frequencies, is the relaxed most
    likely set of words. If q is well above the number of words, its solution is sparser than a
    chance vertex, and the true row. If latents were clipped and noised, z is the most likely latent
    given all rounds: it falls back to m W as noise grows, and no programme is solved.
    """
    weights, noise = first_weights(view).double().numpy(), noise_of(view, LATENT)
    known, prior = question.known.astype(np.float64), _prior_guess(question)
    spread = covariance_times(known - _known_prior(question), weights, float(known.max()))
    between, expected = weights.T @ spread, prior @ weights
    if noise is not None:
        found = latent_paths(view, question.ids)
        z = likeliest_latents(found, noise, expected, between, np.abs(known).sum(1))
    else:
        z = first_latents(view).rows_of(question.ids)
    evidence = (z - expected) @ np.linalg.pinv(between)
    if not is_words(known):
        linear: Array = prior + evidence @ spread.T
        return linear
    guess = more_likely(prior, evidence @ weights.T, known)
    if noise is not None or known.max() > 1 or weights.shape[1] < 2 * (known != 0).sum(1).mean():
        return guess
    share = np.clip((known != 0).mean(0), 0.5 / len(known), 1 - 0.5 / len(known))
    for i, row in enumerate(z):
        exact = solve_programme(row, weights, np.log(1 / share - 1))
        guess[i] = guess[i] if exact is None else exact
    return guess


def _prior_guess(question: NodeFeatures) -> Array:
    """Return the guess of the targets' features without the run."""
    if question.prior is not None:
        return question.prior
    return np.tile(question.known.mean(0, dtype=np.float64), (len(question.ids), 1))


def _known_prior(question: NodeFeatures) -> Array:
    """Return the guess of the known rows without the run."""
    if question.known_prior is not None:
        return question.known_prior
    mean: Array = question.known.mean(0, dtype=np.float64)
    return mean


def covariance_times(rest: Array, weights: Array, largest: float) -> Array:
    """Return S W, with S between the sample covariance of what is left of known rows and its
    diagonal."""
    sample = rest.T @ (rest @ weights) / len(rest)
    diagonal = ((rest**2).mean(0) + UNSEEN * largest)[:, None] * weights
    found: Array = (1 - SHRINK) * sample + SHRINK * diagonal
    return found


def more_likely(prior: Array, evidence: Array, known: Array) -> Array:
    """Return words whose odds have got this evidence, at what a word counts when it is there."""
    value = float(known[known > 0].mean())
    # Counts are added in a way that keeps the order of all words: without evidence it is the prior.
    share = prior.clip(0, value) / value
    share = (len(known) * share + HALF_A_WORD) / (len(known) + 2 * HALF_A_WORD)
    found: Array = value * expit(logit(share) + value * evidence)
    return found


def solve_programme(z: Array, weights: Array, cost: Array) -> Array | None:
    """Return the relaxed most likely row that gives z, or None if the equations leave it open.

    A vertex that is there by chance has q entries between the bounds. The true row has fewer.
    """
    from scipy.optimize import linprog  # loaded where it is used

    found = linprog(cost, A_eq=weights.T, b_eq=z, bounds=(0, 1), method="highs")
    if found.x is None:
        return None
    solved: Array = found.x
    between = ((solved > 1e-9) & (solved < 1 - 1e-9)).sum()
    return solved if between <= 0.75 * len(z) else None


LATENT_INVERSION = Attack(
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
    exposes="what a user's own record says, from a short summary of it",
    stopped_by="noise on the latents; fewer numbers per latent; first weights that are not shared",
    run=latent_inversion,
    rounds=20,
    applies_to=needs_shared_start,
)


ATTACKS = (DRIFT, LATENT_INVERSION)
