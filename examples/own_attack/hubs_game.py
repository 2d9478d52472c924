"""The game of the question `Hubs`: it holds the truth, draws the targets and scores a guess."""

import numpy as np
from hubs import Hubs

from audits.games.base import BinaryGame, choose_targets, plays
from audits.truth import Truth
from securefg.protocol.transcript import Adversary


@plays(Hubs)
def hubs(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask which nodes have more links than the median node. Prior: chance."""
    degrees = np.bincount(truth.graph.edge_index[0].numpy(), minlength=truth.graph.num_nodes)
    ids = choose_targets(np.arange(len(degrees)), 500, rng)
    return BinaryGame(
        question=Hubs(ids=ids),
        metric="AUC over nodes with many links and others",
        unit="node with its edges",
        truth=(degrees[ids] > np.median(degrees)).astype(np.int64),
    )
