"""Games about what the server's messages to colluding users tell of the server's own data."""

from __future__ import annotations

import numpy as np

from attacks.base import CannotAttack
from attacks.decoders import ridge_decoded
from attacks.public_labels import one_hot, standardised
from attacks.questions import OwnLabels
from audits.games.base import NotAsked, OutcomeGame, plays
from audits.games.public_nodes import is_right
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

LEAST, KNOWN_SHARE = 20, 1 / 3


@plays(OwnLabels)
def own_labels(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> OutcomeGame:
    """Ask colluding users which labels the server has on record for them.

    A third of them know their label. The prior is what these labels and everybody's own features
    tell of the others: a ridge classifier.
    """
    experiment, graph = truth.experiment, truth.graph
    if experiment.public.known_labels is None:
        raise CannotAttack("the server is given no labels")
    if int(experiment.partition.sizes.max()) > 1 or graph.labels.dim() != 1:
        raise CannotAttack("clients are not single nodes with one label each")
    trained = np.flatnonzero(graph.split.train.numpy())
    users = rng.permutation(np.intersect1d(trained, sorted(adversary.clients)))
    if len(users) < LEAST:
        raise NotAsked(
            f"{len(users)} colluding users whose labels the server has; {LEAST} are needed "
            "(--adversary client:0,1,...)"
        )
    count, classes = int(KNOWN_SHARE * len(users)), graph.num_classes
    known, wanted = users[:count], users[count:]
    labels, features = graph.labels.numpy(), truth.features().astype(np.float64)
    taught, asked = standardised(features[known], features[wanted])
    prior = ridge_decoded(taught, one_hot(labels[known], classes), asked).argmax(1)
    return OutcomeGame(
        question=OwnLabels(
            ids=wanted, known_ids=known, known_labels=labels[known], num_classes=classes
        ),
        metric="share of labels on record guessed",
        unit="label of a node",
        truth=labels[wanted],
        outcome=is_right,
        prior_guess=prior.astype(np.float64),
    )
