"""Which labels do others train on, to a client? Their training nodes, and as many of the test's.

As many of every class; the client holds none of them, and knows the graph, features and labels, as
in the game of membership. Prior: chance, so that a model need not be there before the game.
"""

from __future__ import annotations

import numpy as np

from attacks.base import CannotAttack
from attacks.questions import OthersMembers
from audits.games.base import plays
from audits.games.membership import MembershipGame, balanced
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

MANY = 120


@plays(OthersMembers)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> MembershipGame:
    graph, shards = truth.graph, truth.experiment.shards
    if graph.labels.dim() != 1:
        raise CannotAttack("nodes hold several samples each: a node has no one label")
    own = [shards[k].node_ids.numpy() for k in sorted(adversary.clients)]
    theirs = ~np.isin(np.arange(graph.num_nodes), np.concatenate([*own, np.zeros(0, np.int64)]))
    labels, train = graph.labels.numpy(), graph.split.train.numpy()
    ids = balanced(labels, train & theirs, graph.split.test.numpy() & theirs, rng)[:MANY]
    return MembershipGame(
        question=OthersMembers(
            ids=ids,
            labels=labels[ids],
            known_ids=np.arange(graph.num_nodes),
            known=truth.features(),
            edges=graph.edge_index.numpy(),
        ),
        metric="AUC over others' training nodes and test nodes",
        unit="label of a node",
        truth=train[ids].astype(np.int64),
    )
