"""A client's samples from the change of its first layer W x + b, in any framework's uploads.

A sample x with error d behind the layer moves W by d x^T and b by d, so every row of W's change
over the same number of b's change is x (Phong et al. 2018); over several steps on one sample too,
since the errors add up. With several samples a row is a mixture, sum_s d_s x_s / sum_s d_s, and the
sample itself where a rectified unit was on for that sample alone. All rows lie in the span of the
samples, where samples of 0 and 1 are found by enumeration (see `jacobian_samples`). Of other
samples the guesses are rows: first those that several units agree on, then the sparsest.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, CannotAttack, View
from attacks.client_models import MODEL, layout_of
from attacks.first_layers import first_layers, sent_first_layers, without_decay
from attacks.jacobian_samples import LARGEST_RANK, binary_rows, span
from attacks.questions import TrainedSamples

SAME = 1e-3
UNSURE = 0.125
ONE_SIGN = 0.9
"""Of all entries' sizes, what their sum has if they have one sign but for rounding."""


def run(view: View, question: TrainedSamples, rng: np.random.Generator) -> Array:
    """For every client as many rows as the largest has samples, from its first upload."""
    changes: dict[int, tuple[Array, Array, Array | None]] = {}
    for number, client, weight, bias in first_layers(view):
        if client not in changes:
            bare = without_decay(view, number, weight)
            changes[client] = bare, bias, sent_first_layers(view, number)
    if missing := [k for k in question.ids.tolist() if k not in changes]:
        raise CannotAttack(f"client {missing[0]} uploaded nothing that can be read")
    count = question.num_samples
    guesses = [samples_of(*changes[k][:2], count, changes[k][2]) for k in question.ids.tolist()]
    if question.prior is None:
        return np.stack(guesses)
    noised = view.best_rows(MODEL)[0].noise is not None
    mixed = [noised or spans_everything(changes[k][0], count) for k in question.ids.tolist()]
    three = zip(guesses, question.prior, mixed, strict=True)
    return np.stack([filled(*one) for one in three])


def spans_everything(weight: Array, count: int) -> bool:
    """Whether several samples moved a layer in as many directions as there are inputs: every row is
    in such a span, and those that are seen are mixtures."""
    return count > 1 and len(span(weight, weight.shape[1])) >= weight.shape[1]


def filled(guess: Array, prior: Array, mixed: bool) -> Array:
    """The guesses, and the prior's where there are no more. Fewer rows than samples are mixtures,
    and under noise all are noise: then the prior's stay, but for a part of the first guess in the
    last of them."""
    own, count = guess[np.abs(guess).sum(1) > 0], len(guess)
    if not (mixed or 1 < len(own) < count):
        return np.concatenate([own, prior[: count - len(own)]])
    found = prior.copy()
    found[-1:] = _unit(prior[-1:]) + UNSURE * _unit(guess[:1])
    return found


def _unit(rows: Array) -> Array:
    found: Array = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return found


def samples_of(weight: Array, bias: Array, count: int, start: Array | None = None) -> Array:
    """(count, inputs); rows of zeros where fewer were found. `start`  the matrix that was sent."""
    found = np.zeros((count, weight.shape[1]))
    if not np.abs(weight).max() > 0:
        return found
    if count == 1:
        return the_only_one(weight, bias, start)
    rows = candidates(weight, bias, start)
    basis = span(weight, LARGEST_RANK + 1)
    # Of one sample, a single direction is left: the quotient is it, and nothing need be enumerated.
    few = 1 < len(basis) <= LARGEST_RANK and not spans_everything(weight, count)
    binary = binary_rows(basis) if few else None
    chosen = rows if binary is None else binary
    found[: len(chosen[:count])] = chosen[:count]
    return found


def the_only_one(weight: Array, bias: Array, start: Array | None) -> Array:
    """(1, inputs): the x nearest to W = b x^T over all units; without a bias, up to its scale."""
    if bias.size and np.abs(bias).max() > 0:
        quotient: Array = (bias @ weight / (bias @ bias))[None]
        return quotient
    direction = np.linalg.svd(weight, full_matrices=False)[2][:1]
    moved = np.linalg.norm(weight, axis=1, keepdims=True)
    return turned(direction, None if start is None else (moved * start).sum(0)[None])


def turned(rows: Array, start: Array | None) -> Array:
    """Rows of unknown sign, each with the one that a sample has. Where entries have one sign, it is
    plus; of others the weights tell: a rectified unit moves for samples that it is positive on."""
    sums, sizes = rows.sum(1), np.abs(rows).sum(1)
    on = sums if start is None else np.where(np.abs(sums) > ONE_SIGN * sizes, sums, 0)
    if start is not None:
        on = np.where(on == 0, (rows * start).sum(1), on)
    found: Array = rows * np.where(on < 0, -1, 1)[:, None]
    return found


def candidates(weight: Array, bias: Array, start: Array | None = None) -> Array:
    """Rows of W's change over b's, likeliest samples first, none twice. Without a bias, the rows
    themselves: samples up to their scale."""
    if bias.size:
        moved = np.abs(bias) > 1e-6 * np.abs(bias).max()
        rows = weight[moved] / bias[moved, None]
    else:
        moved = np.linalg.norm(weight, axis=1) > 1e-6 * np.linalg.norm(weight)
        rows = weight[moved] / np.linalg.norm(weight[moved], axis=1, keepdims=True)
        rows = turned(rows, None if start is None else start[moved])
    sizes = np.linalg.norm(rows, axis=1)
    same = np.linalg.norm(rows[:, None] - rows[None], axis=2) <= SAME * sizes[:, None]
    support = (np.abs(rows) > SAME * np.abs(rows).max(1, keepdims=True)).sum(1)
    chosen: list[int] = []
    for row in np.lexsort((support, -same.sum(1))).tolist():
        if not same[row, chosen].any():
            chosen.append(row)
    found: Array = rows[chosen]
    return found


def _reads_features(view: View) -> str | None:
    return None if layout_of(view).inputs else "which weights multiply features is not known"


ATTACK = Attack(
    name="first_layer_samples",
    summary="a client's samples, from the change of the first layer that it uploads",
    source="Phong et al. 2018; spans of 0/1 samples as in G1",
    needs=(MODEL,),
    assumes="one upload of every client; how many samples the largest has",
    adversaries=frozenset({"server"}),
    question=TrainedSamples,
    floor=0.2,
    expected="exact for one sample, and for up to a dozen of 0 and 1; else mixtures",
    exposes="the rows that one client trained on, number by number",
    stopped_by=(
        "masks, which leave the mean of all clients; noise on the update; DP-SGD; more "
        "samples per client"
    ),
    run=run,
    rounds=1,
    applies_to=_reads_features,
)
