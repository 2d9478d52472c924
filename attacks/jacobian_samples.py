"""G1: a client's samples from the Jacobian of its hidden representation.

For h = W2 ReLU(W1 x) without bias, J[c, a, :] = W2[c, a] M[a, :] with M = (1/n) sum_s g_s x_s^T and
g_s the 0/1 gates of sample s; W2 is known, so the upload is M. One sample: every row of M is the
sample or zero. Several samples of 0 and 1: M spans them; in the basis that is the identity on r
pivot columns a sample has coordinates 0 and 1, so 2^r combinations are tried, and those that are
0/1 in every column are samples, or sums of disjoint ones, which non-negative least squares tells
apart. Continuous samples: the subspace they span. Derived here; Phong et al. 2018 have the first
case for gradients.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, Attack, CannotAttack, View
from attacks.questions import ClientSamples
from securefg.protocol.meanings import Jacobian

SLOPE = Jacobian()
LARGEST_RANK = 14
TRACE = 0.05


def run(view: View, question: ClientSamples, rng: np.random.Generator) -> Array:
    """For every target as many rows as it has samples: samples, or a basis of their span."""
    rows = view.best_rows(SLOPE)
    first = [message for message in rows if message.round == rows[0].round]
    found = {}
    for message in first:
        for row, client in enumerate(message.clients.numbers()):
            found[client] = message.value[row]
    meaning = rows[0].meaning
    assert isinstance(meaning, Jacobian)
    hidden = meaning.units
    if missing := [k for k in question.ids.tolist() if k not in found]:
        raise CannotAttack(f"client {missing[0]} uploaded no Jacobian in round {rows[0].round}")
    mixtures = [
        found[k].reshape(hidden or 1, -1)[:, :-1].double().numpy() for k in question.ids.tolist()
    ]
    guesses = np.stack([samples_of(mixture, question.num_samples) for mixture in mixtures])
    noise = rows[0].noise
    if noise is None or question.prior is None or question.num_samples > 1:
        return guesses
    trust = np.array([above_noise(mixture, noise.sd) for mixture in mixtures])[:, None, None]
    return trust * _unit(guesses) + (1 - trust) * _unit(question.prior)


def above_noise(mixture: Array, noise_sd: float) -> float:
    """The share of the largest singular value's square that noise, whose own reach up to
    sd (sqrt(n) + sqrt(m)), cannot have made."""
    largest = float(np.linalg.norm(mixture, 2))
    edge = noise_sd * sum(np.sqrt(mixture.shape))
    return max(TRACE, 1 - (edge / max(largest, 1e-300)) ** 2)


def _unit(rows: Array) -> Array:
    found: Array = rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)
    return found


def samples_of(mixture: Array, num_samples: int) -> Array:
    """The samples behind M, (num_samples, d); rows of zeros where fewer were found."""
    found = np.zeros((num_samples, mixture.shape[1]))
    if num_samples == 1:
        found[0] = one_sample(mixture)
        return found
    binary = binary_samples(num_samples * mixture) if num_samples <= LARGEST_RANK else None
    rows = span(mixture, num_samples) if binary is None else binary
    found[: len(rows)] = rows[:num_samples]
    return found


def one_sample(mixture: Array) -> Array:
    """The largest row where all agree; else, under noise, the direction that they share."""
    _, sizes, right = np.linalg.svd(mixture, full_matrices=False)
    largest: Array = mixture[np.linalg.norm(mixture, axis=1).argmax()]
    if sizes[1] <= 1e-4 * sizes[0]:
        return largest
    shared: Array = right[0] * (np.sign(right[0] @ largest) or 1.0)
    return shared


def span(mixture: Array, num_samples: int) -> Array:
    """An orthonormal basis of the rows of M."""
    _, sizes, right = np.linalg.svd(mixture, full_matrices=False)
    rank = int((sizes > 1e-5 * sizes[0]).sum())
    basis: Array = right[: min(rank, num_samples)]
    return basis


def binary_samples(mixture: Array) -> Array | None:
    """Samples of 0 and 1 behind their sums; None where there are none of that kind."""
    from scipy.optimize import nnls  # loaded where it is used

    single = binary_rows(span(mixture, LARGEST_RANK + 1))
    if single is None:
        return None
    weights = np.array([nnls(single.T, row)[0] for row in mixture])
    used: Array = single[weights.max(0) > 0.5]
    return used if len(used) else None


def binary_rows(basis: Array) -> Array | None:
    """Vectors of 0 and 1 in a span that are no sum of two others; None where there are none."""
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
    """Which candidates are the union of two others that share no word."""
    known = {row.astype(np.int8).tobytes() for row in candidates}
    inside = candidates @ candidates.T >= candidates.sum(1)[:, None]  # [a, c]: a lies within c
    found = np.zeros(len(candidates), bool)
    for c, row in enumerate(candidates):
        parts = np.flatnonzero(inside[:, c])
        rests = (row - candidates[parts[parts != c]]).astype(np.int8)
        found[c] = any(rest.tobytes() in known for rest in rests)
    return found


ATTACK = Attack(
    name="jacobian_samples",
    summary="a client's samples from its uploaded Jacobian",
    source="G1: J[c, a, :] = W2[c, a] (1/n) sum_s g_sa x_s",
    needs=(SLOPE,),
    assumes="one upload of every client; the number of samples per client",
    adversaries=frozenset({"server"}),
    question=ClientSamples,
    floor=0.2,
    expected="every sample exactly, for one sample or up to a dozen of 0 and 1",
    exposes="the records of every client, entry by entry",
    stopped_by=(
        "noise on the Jacobians; a method without Jacobians; masks hide the models and not "
        "the Jacobians"
    ),
    run=run,
    rounds=1,
)
