"""Which labels did others train on? Nodes that the adversary does not hold; unlabelled ones are the
prior."""

from __future__ import annotations

import numpy as np
import torch

from attacks.base import CannotAttack
from attacks.questions import OthersLabels
from audits.games.base import plays
from audits.games.training_labels import FEWEST, LabelGame
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

MANY_OF_EACH = 500


@plays(OthersLabels)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> LabelGame:
    graph, x = truth.graph, truth.experiment
    if graph.labels.dim() != 1:
        raise CannotAttack("nodes hold several samples each: a node has no one label")
    own = [x.shards[k].node_ids for k in sorted(adversary.clients)]
    theirs = ~np.isin(np.arange(graph.num_nodes), torch.cat(own).numpy() if own else [])
    labels, train = graph.labels.numpy(), graph.split.train.numpy().copy()
    if x.canaries is not None:  # made to be remembered: they have an audit of their own
        theirs[x.canaries.nodes.numpy()] = False
    held = np.isin(np.arange(graph.num_nodes), x.partition.nodes.numpy())
    sides = [np.flatnonzero(theirs & held & (labels >= 0) & side) for side in (train, ~train)]
    if min(map(len, sides)) < FEWEST:
        raise CannotAttack(
            f"others hold {len(sides[0])} labelled and {len(sides[1])} other nodes; at least "
            f"{FEWEST} of each are needed"
        )
    ids = np.concatenate([rng.permutation(side)[:MANY_OF_EACH] for side in sides])
    ids = rng.permutation(ids)
    return LabelGame(
        question=OthersLabels(ids=ids),
        metric="share of others' training labels guessed; prior: of other nodes' labels",
        unit="label of a node",
        truth=labels[ids],
        trained=train[ids],
    )
