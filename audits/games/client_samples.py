"""What are a client's samples? One row per sample is guessed, in any order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack
from attacks.questions import ClientSamples
from audits.games.base import OutcomeGame, choose, plays
from audits.games.kriging import KNOWN_SHARE, known_apart, kriged
from audits.known_graph import known_edges
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

MANY_TARGETS = 300


@dataclass(frozen=True)
class SampleGame(OutcomeGame):
    """Beside the metric: the share of samples that were recovered in all their entries."""

    def extras(self, guess: Array) -> dict[str, float]:
        return {"exact_samples": float(exact(guess, self.truth).mean())}


@plays(ClientSamples)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> SampleGame:
    """Prior: for one sample the mean of known clients', or what they tell of their neighbours';
    for several a random subspace as large."""
    features = truth.features()
    samples: Array = (features if features.ndim == 3 else features[:, None]).astype(np.float64)
    others = np.setdiff1d(np.arange(len(samples)), sorted(adversary.clients))
    others = others[np.abs(samples[others]).sum((1, 2)) > 0]
    least = int((1 - KNOWN_SHARE) * len(others))
    wanted = choose(others, min(MANY_TARGETS, max(least, 2)), rng)
    count, width = samples.shape[1:]
    if count >= width:
        raise CannotAttack(f"{count} samples of {width} numbers span everything: nothing to find")
    if count == 1:
        prior = one_each(truth, adversary, samples[:, 0], others, wanted, rng)
    else:
        drawn = rng.standard_normal((len(wanted), min(count, width), width))
        prior = np.zeros((len(wanted), count, width))
        prior[:, : drawn.shape[1]] = np.linalg.qr(drawn.transpose(0, 2, 1))[0].transpose(0, 2, 1)
    return SampleGame(
        question=ClientSamples(ids=wanted, num_samples=count),
        metric="cosine with the nearest guess" if count == 1 else "share within the guessed span",
        unit="sample",
        truth=samples[wanted],
        outcome=nearest if count == 1 else within,
        prior_guess=prior,
    )


def one_each(
    truth: Truth,
    adversary: Adversary,
    rows: Array,
    others: NDArray[np.int64],
    wanted: NDArray[np.int64],
    rng: np.random.Generator,
) -> Array:
    """(wanted, 1, d): a guess of the one sample of each, from known clients' samples."""
    known = known_apart(others, wanted, rng)
    if not len(known):
        raise CannotAttack("no client is left whose sample could be known from elsewhere")
    edges = known_edges(truth, adversary)
    return kriged(rows[known], known, wanted, edges, len(rows)).wanted[:, None]


def nearest(guess: Array, truth: NDArray[np.float64]) -> Array:
    """The cosine of a client's sample with the best of its guesses."""
    unit = [x / np.maximum(np.linalg.norm(x, axis=2, keepdims=True), 1e-12) for x in (guess, truth)]
    cosine = np.einsum("ngd,nsd->nsg", *unit)
    best: Array = cosine.max(2).mean(1)
    return best.clip(0, 1)


def within(guess: Array, truth: NDArray[np.float64]) -> Array:
    """How much of the samples lies in the span of the guesses: |projection| / |sample|."""
    found = []
    for rows, samples in zip(guess, truth, strict=True):
        basis = np.linalg.qr(rows[np.abs(rows).sum(1) > 0].T)[0]
        inside = np.linalg.norm(samples @ basis, axis=1)
        found.append((inside / np.maximum(np.linalg.norm(samples, axis=1), 1e-12)).mean())
    return np.array(found).clip(0, 1)


def exact(guess: Array, truth: NDArray[np.float64]) -> Array:
    """The share of a client's samples that are among its guesses, entry by entry."""
    size = np.abs(truth).max((1, 2))[:, None, None, None]
    apart = np.abs(guess[:, None] - truth[:, :, None]) > 1e-3 * size
    found: Array = (~apart.any(3)).any(2).mean(1)
    return found
