"""What are the samples of a foreign exchange's clients? Scored by the guess nearest to each.

Every client gets as many guesses as the largest has samples. So does the prior: samples of other
clients, drawn at random, and their mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array
from attacks.questions import TrainedSamples
from audits.foreign import ForeignTruth
from audits.games.base import OutcomeGame, choose, plays
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

MANY_TARGETS = 300
MOST_SAMPLES = 64
EXACT = 1e-3


@dataclass(frozen=True)
class TrainedSampleGame(OutcomeGame):
    """Beside the metric: the share of clients' samples that were recovered in all their entries,
    and the same for clients with one sample and with several. What the prior has already (a sample
    that another client holds too) was not recovered."""

    def extras(self, guess: Array) -> dict[str, float]:
        rows = zip(guess, self.prior_guess, self.truth, strict=True)
        shares = np.array([_exact(_new(g, p), _real(t)) for g, p, t in rows])
        single = np.array([len(_real(t)) == 1 for t in self.truth])
        groups = {"": np.ones(len(single), bool), "_of_one": single, "_of_several": ~single}
        return {
            f"exact_samples{name}": float(shares[chosen].mean())
            for name, chosen in groups.items()
            if chosen.any()
        }


@plays(TrainedSamples)
def make(
    truth: Truth | ForeignTruth, adversary: Adversary, rng: np.random.Generator
) -> TrainedSampleGame:
    """Samples of zeros are nothing to find; of a large client, a random choice is sought."""
    samples = {k: rows[np.abs(rows).sum(1) > 0] for k, rows in truth.samples.items()}
    clients = [k for k, rows in samples.items() if len(rows) and k not in adversary.clients]
    wanted = choose(np.array(sorted(clients), np.int64), MANY_TARGETS, rng)
    kept = [rng.permutation(samples[int(k)])[:MOST_SAMPLES] for k in wanted]
    count = max(map(len, kept))
    padded = np.zeros((len(kept), count, next(iter(samples.values())).shape[1]))
    for row, rows in zip(padded, kept, strict=True):
        row[: len(rows)] = rows
    return TrainedSampleGame(
        question=TrainedSamples(ids=wanted, num_samples=count),
        metric="cosine with the nearest guess, mean over a client's samples",
        unit="sample",
        truth=padded,
        outcome=nearest,
        prior_guess=np.stack([_others(samples, int(k), count, rng) for k in wanted]),
    )


def _others(samples: dict[int, Array], client: int, count: int, rng: np.random.Generator) -> Array:
    pool = np.concatenate([rows for k, rows in samples.items() if k != client])
    drawn = pool[rng.integers(len(pool), size=count)]
    drawn[0] = pool.mean(0)
    return drawn


def nearest(guess: Array, truth: NDArray[np.float64]) -> Array:
    """The mean, over a client's samples, of the cosine with the best guess."""
    found = []
    for guesses, padded in zip(guess, truth, strict=True):
        one, other = (_unit(rows) for rows in (_real(padded), guesses))
        found.append(float((one @ other.T).max(1).mean()))
    return np.array(found).clip(0, 1)


def _unit(rows: Array) -> Array:
    found: Array = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return found


def _real(padded: Array) -> Array:
    found: Array = padded[np.abs(padded).sum(1) > 0]
    return found


def _new(guess: Array, prior: Array) -> Array:
    """The guesses without those that the prior has."""
    found: Array = guess * (guess[:, None] != prior[None]).any(2).all(1)[:, None]
    return found


def _exact(guess: Array, samples: Array) -> float:
    apart = np.abs(guess[None] - samples[:, None]).max(2) > EXACT * np.abs(samples).max()
    return float((~apart).any(1).mean())
