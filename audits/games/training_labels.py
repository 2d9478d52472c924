"""Which labels did one client train on? Labelled nodes count, unlabelled ones are the prior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack
from attacks.questions import TrainingLabels
from audits import metrics
from audits.games.base import NULL_DRAWS, NULL_SDS, Game, plays, victim
from audits.truth import Truth
from securefg.foundation.interval import Interval
from securefg.protocol.transcript import Adversary

FEWEST = 5


@dataclass(frozen=True)
class LabelGame(Game):
    """truth  the class of every target; trained  whether its label was used for training.

    The prior is the accuracy on the untrained targets: what the model says of anybody.
    """

    truth: NDArray[np.int64]
    trained: NDArray[np.bool_]

    def measure(self, guess: Array) -> Interval:
        self.check(guess)
        return _share((guess == self.truth)[self.trained])

    def prior(self, guess: Array) -> Interval:
        return _share((guess == self.truth)[~self.trained])

    def gain(self, guess: Array) -> Interval:
        """A difference of two shares over different nodes: their variances add."""
        right = guess == self.truth
        return _difference(right[self.trained], right[~self.trained])

    def null(self, guess: Array, rng: np.random.Generator) -> tuple[Interval, bool]:
        """Whether a label was used, permuted: then the two shares are of like nodes."""
        right, gains = guess == self.truth, []
        for _ in range(NULL_DRAWS):
            drawn = rng.permutation(self.trained)
            gains.append(right[drawn].mean() - right[~drawn].mean())
        low, high = np.quantile(gains, [0.025, 0.975])
        mean = float(np.mean(gains))
        spread = NULL_SDS * float(np.std(gains)) / NULL_DRAWS**0.5
        return Interval(value=mean, low=float(low), high=float(high)), abs(mean) <= spread + 1e-9

    def per_record(self, guess: Array) -> dict[str, NDArray[Any]]:
        return {"right": guess == self.truth, "trained": self.trained}


@plays(TrainingLabels)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> LabelGame:
    client = victim(truth, adversary)
    shard = truth.experiment.shards[client]
    if shard.graph.labels.dim() != 1:
        raise CannotAttack("nodes hold several samples each: a node has no one label")
    order = rng.permutation(np.flatnonzero(shard.graph.labels.numpy() >= 0))
    trained = shard.graph.split.train.numpy()[order]
    if min(trained.sum(), (~trained).sum()) < FEWEST:
        raise CannotAttack(f"client {client} has too few labelled or unlabelled nodes")
    return LabelGame(
        question=TrainingLabels(ids=shard.node_ids.numpy()[order], client=client),
        metric="share of training labels guessed; prior: of other nodes' labels",
        unit="label of a node",
        truth=shard.graph.labels.numpy()[order],
        trained=trained,
    )


def _share(right: NDArray[np.bool_]) -> Interval:
    found = metrics.clopper_pearson(int(right.sum()), len(right))
    return Interval(value=found.value, low=found.low, high=found.high)


def _difference(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> Interval:
    """Newcombe 1998, method 10, over exact ends: of five labels that a guess has right by chance
    none is a gain."""
    ends = [metrics.clopper_pearson(int(x.sum()), len(x)) for x in (one, other)]
    first, second = ends
    value = first.value - second.value
    below = math.hypot(first.value - first.low, second.high - second.value)
    above = math.hypot(first.high - first.value, second.value - second.low)
    return Interval(value=value, low=value - below, high=value + above)
