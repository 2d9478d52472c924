"""What are the samples that a client trained on? Scored by the guess nearest to each.

The prior is another client's training samples: the nearest of as many rows is near by chance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack
from attacks.questions import TrainingSamples
from audits.games.base import OutcomeGame, choose, plays, somebody_elses
from audits.games.client_samples import nearest
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

MANY_TARGETS = 12
NEARLY = 0.95


@dataclass(frozen=True)
class TrainingSampleGame(OutcomeGame):
    """Beside the metric: the share of samples with a guess of cosine above 0.95."""

    def extras(self, guess: Array) -> dict[str, float]:
        found = [nearest(guess, self.truth[:, [s]]) > NEARLY for s in range(self.truth.shape[1])]
        return {"samples_nearly_found": float(np.mean(found))}


@plays(TrainingSamples)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> TrainingSampleGame:
    samples = training_samples(truth)
    with_samples = np.array(sorted(samples.keys() - adversary.clients), dtype=np.int64)
    wanted = choose(with_samples, MANY_TARGETS, rng)
    rows = np.stack([samples[int(k)] for k in wanted])
    return TrainingSampleGame(
        question=TrainingSamples(ids=wanted, num_samples=rows.shape[1]),
        metric="cosine with the nearest guess, mean over a client's samples",
        unit="sample",
        truth=rows,
        outcome=nearest,
        prior_guess=somebody_elses(rows, rng),
    )


def training_samples(truth: Truth) -> dict[int, NDArray[np.float64]]:
    """Of every client that trains, (samples, d)."""
    if len({len(rows) for rows in truth.samples.values()}) > 1:
        raise CannotAttack("clients train on different numbers of samples")
    return truth.samples
