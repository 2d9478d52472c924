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

from attacks.base import Array, Attack, CannotAttack, Targets, View
from attacks.client_models import MODEL, layout_of
from attacks.first_layers import first_layers
from attacks.jacobian_samples import LARGEST_RANK, binary_rows, span

SAME = 1e-3
UNSURE = 0.125


def run(view: View, targets: Targets, rng: np.random.Generator) -> Array:
    """For every client as many rows as the largest has samples, from its first upload."""
    if targets.num_samples is None:
        raise CannotAttack("the number of samples per client is not known")
    changes: dict[int, tuple[Array, Array]] = {}
    for _, client, weight, bias in first_layers(view):
        changes.setdefault(client, (weight, bias))
    if missing := [k for k in targets.ids.tolist() if k not in changes]:
        raise CannotAttack(f"client {missing[0]} uploaded nothing that can be read")
    guesses = [samples_of(*changes[k], targets.num_samples) for k in targets.ids.tolist()]
    if targets.prior is None:
        return np.stack(guesses)
    noised = view.best_rows(MODEL)[0].noise is not None
    return np.stack([filled(*two, noised) for two in zip(guesses, targets.prior, strict=True)])


def filled(guess: Array, prior: Array, noised: bool) -> Array:
    """The guesses, and the prior's where there are no more. Fewer rows than samples are mixtures,
    and under noise all are noise: then the prior's stay, but for a part of the first guess in the
    last of them."""
    own, count = guess[np.abs(guess).sum(1) > 0], len(guess)
    if not (noised or 1 < len(own) < count):
        return np.concatenate([own, prior[: count - len(own)]])
    found = prior.copy()
    found[-1:] = _unit(prior[-1:]) + UNSURE * _unit(guess[:1])
    return found


def _unit(rows: Array) -> Array:
    found: Array = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return found


def samples_of(weight: Array, bias: Array, count: int) -> Array:
    """(count, inputs); rows of zeros where fewer were found."""
    found = np.zeros((count, weight.shape[1]))
    if not np.abs(weight).max() > 0:
        return found
    rows = candidates(weight, bias)
    basis = span(weight, LARGEST_RANK + 1)
    # Of one sample, a single direction is left: the quotient is it, and nothing need be enumerated.
    binary = binary_rows(basis) if 1 < len(basis) <= LARGEST_RANK else None
    chosen = rows if binary is None else binary
    found[: len(chosen[:count])] = chosen[:count]
    return found


def candidates(weight: Array, bias: Array) -> Array:
    """Rows of W's change over b's, likeliest samples first, none twice. Without a bias, the rows
    themselves with a positive sum: samples up to their scale."""
    if bias.size:
        moved = np.abs(bias) > 1e-6 * np.abs(bias).max()
        rows = weight[moved] / bias[moved, None]
    else:
        moved = np.linalg.norm(weight, axis=1) > 1e-6 * np.linalg.norm(weight)
        rows = weight[moved] / np.linalg.norm(weight[moved], axis=1, keepdims=True)
        rows *= np.where(rows.sum(1, keepdims=True) < 0, -1, 1)
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
    game="trained_samples",
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
