"""Does a client train on any label of a class? Pairs of a client and a class, id k C + c.

Prior: how many of the clients have the class, which is taken as known.
"""

from __future__ import annotations

import numpy as np

from attacks.base import CannotAttack
from attacks.questions import ClientClasses
from audits.games.base import BinaryGame, plays
from audits.games.labels import MANY_CLIENTS, class_shares
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

LEAST_OF_EACH = 5


@plays(ClientClasses)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    shares, clients = class_shares(truth, adversary)
    if not len(clients):
        raise CannotAttack("no client trains on labels")
    chosen = rng.permutation(len(clients))[:MANY_CLIENTS]
    has = shares[chosen] > 0
    if min(has.sum(), (~has).sum()) < LEAST_OF_EACH:
        raise CannotAttack(
            f"{has.sum()} of {has.size} pairs of a client and a class have a label; at least "
            f"{LEAST_OF_EACH} with and without one are needed"
        )
    classes = shares.shape[1]
    ids = clients[chosen][:, None] * classes + np.arange(classes)
    common = np.broadcast_to((shares > 0).mean(0), has.shape)
    order = rng.permutation(ids.size)
    return BinaryGame(
        question=ClientClasses(ids=ids.ravel()[order]),
        metric="AUC over clients and classes: whether the client has the class at all",
        unit="client",
        truth=has.astype(np.int64).ravel()[order],
        prior_scores=common.ravel()[order].astype(np.float64),
    )
