"""Which of a client's nodes have labels that it trains on? Half of the targets have; prior: chance.

Labels and features of the targets are not told: without the run nothing sets them apart.
"""

from __future__ import annotations

import numpy as np

from attacks.base import CannotAttack
from attacks.questions import LabelledNodes
from audits.games.base import BinaryGame, plays
from audits.games.victims import victim
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

MANY_OF_EACH, LEAST_OF_EACH = 40, 8


@plays(LabelledNodes)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    if truth.experiment.public.known_labels is not None:
        raise CannotAttack("the server is given the training labels: which nodes have them is none")
    client = victim(truth, adversary)
    shard = truth.experiment.shards[client]
    if shard.graph.split.train.dim() != 1:
        raise CannotAttack("nodes hold several samples each: a node has no one label")
    nodes, train = shard.node_ids.numpy(), shard.graph.split.train.numpy()
    count = min(MANY_OF_EACH, int(train.sum()), int((~train).sum()))
    if count < LEAST_OF_EACH:
        raise CannotAttack(
            f"client {client} has {int(train.sum())} labelled nodes of {len(nodes)}; at least "
            f"{LEAST_OF_EACH} with and without a label are needed"
        )
    sides = [rng.permutation(nodes[side])[:count] for side in (train, ~train)]
    order = rng.permutation(2 * count)
    so = np.repeat(np.array([1, 0], np.int64), count)
    return BinaryGame(
        question=LabelledNodes(ids=np.concatenate(sides)[order], client=client),
        metric="AUC over a client's labelled and other nodes",
        unit="label of a node",
        truth=so[order],
    )
