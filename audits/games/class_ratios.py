"""Has a client more of a class than the median client? A property of its data as a whole.

Targets are pairs of a client and a class, one class left out since shares add up to one; id k C + c
stands for client k and class c. Prior: the share of clients above the median, class by class. It
differs between classes where shares are tied, as those of a class that nobody trains on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attacks.base import CannotAttack
from attacks.questions import ClassRatios
from audits.games.base import BinaryGame, plays
from audits.metrics import auc
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

LEAST_CLIENTS, MANY_CLIENTS, LEAST_OF_EACH = 4, 400, 3


@plays(ClassRatios)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    shares, clients = class_shares(truth, adversary)
    if len(clients) < LEAST_CLIENTS:
        raise CannotAttack(
            f"{len(clients)} clients train on labels; at least {LEAST_CLIENTS} are needed"
        )
    chosen = rng.permutation(len(clients))[:MANY_CLIENTS]
    above = shares[chosen] > np.median(shares, 0)
    free = rng.permutation(shares.shape[1])[:-1]
    ids = clients[chosen][:, None] * shares.shape[1] + free
    order = rng.permutation(ids.size)
    so = above[:, free].astype(np.int64).ravel()[order]
    rates = np.broadcast_to(above[:, free].mean(0), (len(chosen), len(free))).ravel()[order]
    if min(so.sum(), len(so) - so.sum()) < LEAST_OF_EACH:
        raise CannotAttack(
            f"{so.sum()} of {len(so)} shares are above the median; at least {LEAST_OF_EACH} are "
            "needed above it, and as many not"
        )
    return BinaryGame(
        question=ClassRatios(ids=ids.ravel()[order]),
        metric="AUC over clients and classes: more of the class than the median client",
        unit="client",
        truth=so,
        prior_scores=rates if auc(so, rates) > 0.5 else None,
    )


def class_shares(
    truth: Truth, adversary: Adversary
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """(clients, classes): of each client's training labels; of clients that have any."""
    found, clients = [], []
    for shard in truth.experiment.shards:
        labels = shard.graph.labels[shard.graph.split.train].flatten().numpy()
        labels = labels[labels >= 0]
        if len(labels) and shard.client not in adversary.clients:
            counts = np.bincount(labels, minlength=truth.graph.num_classes)
            found.append(counts / counts.sum())
            clients.append(shard.client)
    return np.array(found), np.array(clients, np.int64)
