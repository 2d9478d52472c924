"""Which class did a client with a label train on? Prior: the most frequent class among them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack
from attacks.questions import ClientLabels
from audits.games.base import OutcomeGame, choose, plays
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

MANY_TARGETS = 500


@plays(ClientLabels)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> OutcomeGame:
    graph = truth.graph
    if graph.labels.dim() != 1:
        raise CannotAttack("samples are labelled apart: a client has no one class")
    if int(truth.experiment.partition.sizes.max()) != 1:
        raise CannotAttack("clients hold several nodes: a client has no one class")
    labels, train = graph.labels.numpy(), graph.split.train.numpy()
    others = np.setdiff1d(np.flatnonzero(train), sorted(adversary.clients))
    wanted = choose(others, MANY_TARGETS, rng, 5)
    most = np.bincount(labels[wanted]).argmax()
    return OutcomeGame(
        question=ClientLabels(ids=wanted),
        metric="share of labels found",
        unit="label of a client",
        truth=labels[wanted],
        outcome=_same,
        prior_guess=np.full(len(wanted), most, np.float64),
    )


def _same(guess: Array, truth: NDArray[np.int64]) -> Array:
    found: Array = (guess == truth).astype(np.float64)
    return found
