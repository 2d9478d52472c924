"""Which nodes does a client hold? Half of the targets it does; all are held by somebody.

The adversary knows the targets' features. Prior: how many clients hold a node, which masked runs
count before anything else.
"""

from __future__ import annotations

import numpy as np

from attacks.base import CannotAttack
from attacks.questions import HeldNodes
from audits.games.base import BinaryGame, plays
from audits.games.victims import other_nodes, victim
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

MANY_OF_EACH, LEAST_OF_EACH = 150, 10


@plays(HeldNodes)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    client = victim(truth, adversary)
    own = truth.experiment.shards[client].node_ids.numpy()
    sides = [own, other_nodes(truth, client)]
    count = min(MANY_OF_EACH, *map(len, sides))
    if count < LEAST_OF_EACH:
        raise CannotAttack(
            f"client {client} holds {len(sides[0])} nodes, others {len(sides[1])} more; at least "
            f"{LEAST_OF_EACH} of each are needed"
        )
    ids = np.concatenate([rng.permutation(side)[:count] for side in sides])
    order = rng.permutation(2 * count)
    holders = np.bincount(truth.experiment.partition.nodes.numpy(), minlength=truth.graph.num_nodes)
    ids = ids[order]
    features = truth.features()[ids]
    if features.ndim != 2:  # several samples a node: no row of a node is known
        features = np.zeros((len(ids), 0), np.float32)
    return BinaryGame(
        question=HeldNodes(
            ids=ids,
            client=client,
            known_ids=ids,
            known=features,
        ),
        metric="AUC over nodes that a client holds and others",
        unit="node",
        truth=np.repeat(np.array([1, 0], np.int64), count)[order],
        prior_scores=holders[ids].astype(np.float64),
    )
