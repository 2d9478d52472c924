"""A client's samples, computed from its Jacobian or from the change of its first layer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, Attack, CannotAttack, View
from attacks.models import MODEL, first_layers, layout_of, sent_first_layers, without_decay
from attacks.questions import ClientSamples, TrainedSamples
from securefg.protocol.meanings import Jacobian

SLOPE = Jacobian()
LARGEST_RANK = 14
TRACE = 0.05


def jacobian_samples(view: View, question: ClientSamples, rng: np.random.Generator) -> Array:
    """Return for every target as many rows as it has samples: samples, or a basis of their span
    (G1).

    For h = W2 ReLU(W1 x) without bias, J[c, a, :] = W2[c, a] M[a, :] with M = (1/n) sum_s g_s x_s^T
    and g_s the 0/1 gates of sample s. W2 is known, so the upload is M. One sample: every row of M
    is the sample or zero. Several samples of 0 and 1: M spans them. In the basis that is the
    identity on r pivot columns a sample has coordinates 0 and 1, so 2^r combinations are tried.
    Combinations that are 0/1 in every column are samples, or sums of disjoint ones, which
    non-negative least squares tells apart. Continuous samples: the subspace they span. The attack
    was derived here. Phong et al. 2018 have the first case for gradients.
    """
    rows = view.best_rows(SLOPE)
    first = [message for message in rows if message.round == rows[0].round]
    jacobian_rows = {}
    for message in first:
        for row, client in enumerate(message.clients.numbers()):
            jacobian_rows[client] = message.value[row]
    meaning = rows[0].meaning
    assert isinstance(meaning, Jacobian)
    hidden = meaning.units
    if missing := [k for k in question.ids.tolist() if k not in jacobian_rows]:
        raise CannotAttack(f"client {missing[0]} uploaded no Jacobian in round {rows[0].round}")
    mixtures = [
        jacobian_rows[k].reshape(hidden or 1, -1)[:, :-1].double().numpy()
        for k in question.ids.tolist()
    ]
    guesses = np.stack([samples_of_mixture(mixture, question.num_samples) for mixture in mixtures])
    noise = rows[0].noise
    if noise is None or question.prior is None or question.num_samples > 1:
        return guesses
    trust = np.array([above_noise(mixture, noise.sd) for mixture in mixtures])[:, None, None]
    return trust * _unit_rows(guesses) + (1 - trust) * _unit_rows(question.prior)


def above_noise(mixture: Array, noise_sd: float) -> float:
    """Return the share of the largest singular value's square that noise, whose own values reach up
    to sd (sqrt(n) + sqrt(m)), cannot have made."""
    largest = float(np.linalg.norm(mixture, 2))
    edge = noise_sd * sum(np.sqrt(mixture.shape))
    return max(TRACE, 1 - (edge / max(largest, 1e-300)) ** 2)


def _unit_rows(rows: Array) -> Array:
    found: Array = rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)
    return found


def samples_of_mixture(mixture: Array, num_samples: int) -> Array:
    """Return the samples behind M, (num_samples, d), with rows of zeros if fewer were found."""
    sample_rows = np.zeros((num_samples, mixture.shape[1]))
    if num_samples == 1:
        sample_rows[0] = one_sample(mixture)
        return sample_rows
    binary = binary_samples(num_samples * mixture) if num_samples <= LARGEST_RANK else None
    rows = mixture_span(mixture, num_samples) if binary is None else binary
    sample_rows[: len(rows)] = rows[:num_samples]
    return sample_rows


def one_sample(mixture: Array) -> Array:
    """Return the largest row if all rows agree. Otherwise, under noise, return the direction that
    they share."""
    _, sizes, right = np.linalg.svd(mixture, full_matrices=False)
    largest: Array = mixture[np.linalg.norm(mixture, axis=1).argmax()]
    if sizes[1] <= 1e-4 * sizes[0]:
        return largest
    shared: Array = right[0] * (np.sign(right[0] @ largest) or 1.0)
    return shared


def mixture_span(mixture: Array, num_samples: int) -> Array:
    """Return an orthonormal basis of the rows of M."""
    _, sizes, right = np.linalg.svd(mixture, full_matrices=False)
    rank = int((sizes > 1e-5 * sizes[0]).sum())
    basis: Array = right[: min(rank, num_samples)]
    return basis


def binary_samples(mixture: Array) -> Array | None:
    """Return samples of 0 and 1 behind their sums, or None where there are none of that kind."""
    from scipy.optimize import nnls  # loaded where it is used

    single = binary_rows(mixture_span(mixture, LARGEST_RANK + 1))
    if single is None:
        return None
    weights = np.array([nnls(single.T, row)[0] for row in mixture])
    used: Array = single[weights.max(0) > 0.5]
    return used if len(used) else None


def binary_rows(basis: Array) -> Array | None:
    """Return the vectors of 0 and 1 in a span that are no sum of two others, or None."""
    from scipy.linalg import qr  # loaded where it is used

    rank = len(basis)
    if rank == 0 or rank > LARGEST_RANK:
        return None
    _, _, pivots = qr(basis, pivoting=True, mode="economic")
    identity = np.linalg.solve(basis[:, pivots[:rank]], basis)
    patterns = (np.arange(1, 2**rank)[:, None] >> np.arange(rank)) & 1
    rows = patterns @ identity
    close = np.minimum(np.abs(rows), np.abs(rows - 1)).max(1) < 1e-3
    candidates = np.abs(rows[close].round())
    if not len(candidates):
        return None
    single: Array = candidates[~_sums_of_two(candidates)]
    return single


def _sums_of_two(candidates: Array) -> NDArray[np.bool_]:
    """Return which candidates are the union of two others that share no word."""
    known = {row.astype(np.int8).tobytes() for row in candidates}
    inside = candidates @ candidates.T >= candidates.sum(1)[:, None]  # [a, c]: a lies within c
    is_sum = np.zeros(len(candidates), bool)
    for c, row in enumerate(candidates):
        parts = np.flatnonzero(inside[:, c])
        rests = (row - candidates[parts[parts != c]]).astype(np.int8)
        is_sum[c] = any(rest.tobytes() in known for rest in rests)
    return is_sum


JACOBIAN_SAMPLES = Attack(
    name="jacobian_samples",
    summary="a client's samples from its uploaded Jacobian",
    source="G1: J[c, a, :] = W2[c, a] (1/n) sum_s g_sa x_s",
    needs=(SLOPE,),
    assumes="one upload of every client; the number of samples per client",
    adversaries=frozenset({"server"}),
    question=ClientSamples,
    floor=0.2,
    expected="every sample exactly, for one sample or up to a dozen of 0 and 1",
    exposes="what the records of clients say",
    stopped_by=(
        "noise on the Jacobians; a method without Jacobians; masks hide the models and not "
        "the Jacobians"
    ),
    run=jacobian_samples,
    rounds=1,
)


SAME = 1e-3
UNSURE = 0.125
ONE_SIGN = 0.9
"""Of all entries' sizes, what their sum has if they have one sign but for rounding."""


def first_layer_samples(view: View, question: TrainedSamples, rng: np.random.Generator) -> Array:
    """Return for every client as many rows as the largest has samples, from its first upload.

    A sample x with error d behind the layer W x + b moves W by d x^T and b by d, so every row of
    W's change over the same number of b's change is x (Phong et al. 2018). This holds over several
    steps on one sample too, since the errors add up. With several samples a row is a mixture, sum_s
    d_s x_s / sum_s d_s, and the sample itself where a rectified unit was on for that sample alone.
    All rows lie in the span of the samples, where samples of 0 and 1 are found by enumeration. For
    other samples the guesses are rows: first those that several units agree on, then the sparsest.
    """
    changes: dict[int, tuple[Array, Array, Array | None]] = {}
    for number, client, weight, bias in first_layers(view):
        if client not in changes:
            bare = without_decay(view, number, weight)
            changes[client] = bare, bias, sent_first_layers(view, number)
    if missing := [k for k in question.ids.tolist() if k not in changes]:
        raise CannotAttack(f"client {missing[0]} uploaded nothing that can be read")
    count = question.num_samples
    guesses = [
        samples_of_change(*changes[k][:2], count, changes[k][2]) for k in question.ids.tolist()
    ]
    if question.prior is None:
        return np.stack(guesses)
    noised = view.best_rows(MODEL)[0].noise is not None
    mixed = [noised or spans_everything(changes[k][0], count) for k in question.ids.tolist()]
    three = zip(guesses, question.prior, mixed, strict=True)
    return np.stack([fill_guesses(*one) for one in three])


def spans_everything(weight: Array, count: int) -> bool:
    """Return whether several samples moved a layer in as many directions as there are inputs.

    Every row lies in such a span, and the rows that are seen are mixtures.
    """
    return count > 1 and len(mixture_span(weight, weight.shape[1])) >= weight.shape[1]


def fill_guesses(guess: Array, prior: Array, mixed: bool) -> Array:
    """Return the guesses, and the prior's where there are no more.

    Fewer rows than samples are mixtures, and under noise all are noise. Then the prior's stay, but
    for a part of the first guess in the last of them.
    """
    own, count = guess[np.abs(guess).sum(1) > 0], len(guess)
    if not (mixed or 1 < len(own) < count):
        return np.concatenate([own, prior[: count - len(own)]])
    found = prior.copy()
    found[-1:] = _unit_rows(prior[-1:]) + UNSURE * _unit_rows(guess[:1])
    return found


def samples_of_change(weight: Array, bias: Array, count: int, start: Array | None = None) -> Array:
    """Return (count, inputs), with rows of zeros where fewer were found. `start` is the sent
    matrix."""
    sample_rows = np.zeros((count, weight.shape[1]))
    if not np.abs(weight).max() > 0:
        return sample_rows
    if count == 1:
        return the_only_one(weight, bias, start)
    rows = candidate_rows(weight, bias, start)
    basis = mixture_span(weight, LARGEST_RANK + 1)
    # Of one sample, a single direction is left: the quotient is it, and nothing need be enumerated.
    few = 1 < len(basis) <= LARGEST_RANK and not spans_everything(weight, count)
    binary = binary_rows(basis) if few else None
    chosen = rows if binary is None else binary
    sample_rows[: len(chosen[:count])] = chosen[:count]
    return sample_rows


def the_only_one(weight: Array, bias: Array, start: Array | None) -> Array:
    """Return (1, inputs): the x nearest to W = b x^T over all units, up to scale if there is no
    bias."""
    if bias.size and np.abs(bias).max() > 0:
        quotient: Array = (bias @ weight / (bias @ bias))[None]
        return quotient
    direction = np.linalg.svd(weight, full_matrices=False)[2][:1]
    moved = np.linalg.norm(weight, axis=1, keepdims=True)
    return turn_rows(direction, None if start is None else (moved * start).sum(0)[None])


def turn_rows(rows: Array, start: Array | None) -> Array:
    """Return rows of unknown sign, each with the sign that a sample has.

    If entries have one sign, it is plus. Otherwise the weights tell the sign: a rectified unit
    moves for samples that it is positive on.
    """
    sums, sizes = rows.sum(1), np.abs(rows).sum(1)
    on = sums if start is None else np.where(np.abs(sums) > ONE_SIGN * sizes, sums, 0)
    if start is not None:
        on = np.where(on == 0, (rows * start).sum(1), on)
    found: Array = rows * np.where(on < 0, -1, 1)[:, None]
    return found


def candidate_rows(weight: Array, bias: Array, start: Array | None = None) -> Array:
    """Return rows of W's change over b's, likeliest samples first, none twice.

    Without a bias the rows themselves are samples up to their scale.
    """
    if bias.size:
        moved = np.abs(bias) > 1e-6 * np.abs(bias).max()
        rows = weight[moved] / bias[moved, None]
    else:
        moved = np.linalg.norm(weight, axis=1) > 1e-6 * np.linalg.norm(weight)
        rows = weight[moved] / np.linalg.norm(weight[moved], axis=1, keepdims=True)
        rows = turn_rows(rows, None if start is None else start[moved])
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


FIRST_LAYER_SAMPLES = Attack(
    name="first_layer_samples",
    summary="a client's samples, from the change of the first layer that it uploads",
    source="Phong et al. 2018; spans of 0/1 samples as in G1",
    needs=(MODEL,),
    assumes="one upload of every client; how many samples the largest has",
    adversaries=frozenset({"server"}),
    question=TrainedSamples,
    floor=0.2,
    expected="exact for one sample, and for up to a dozen of 0 and 1; else mixtures",
    exposes="rows close to those that clients trained on",
    stopped_by=(
        "masks, which leave the mean of all clients; noise on the update; DP-SGD; more "
        "samples per client"
    ),
    run=first_layer_samples,
    rounds=1,
    applies_to=_reads_features,
)


ATTACKS = (JACOBIAN_SAMPLES, FIRST_LAYER_SAMPLES)
