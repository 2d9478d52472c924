"""Which nodes of others are linked to a node of the adversary's own, in what all hold together?

Targets are pairs of an own node and a node that the adversary does not hold: the edges that other
clients hold between two such, and `NON_EDGES` times as many pairs without one, of the same own
nodes. The prior is that of all link games: what plain answers tell, without a change.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attacks.base import CannotAttack
from attacks.questions import OthersLinks
from audits.games.base import choose, plays
from audits.games.client_links import LinkGame
from audits.games.link_prior import link_prior
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

MANY_NODES = 40
NON_EDGES = 20
LEAST_EDGES = 5


@plays(OthersLinks)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> LinkGame:
    if truth.answers is None:
        raise CannotAttack("the run released no model that answers for nodes")
    if not adversary.clients:
        raise CannotAttack("only clients have links to others' nodes of their own")
    shards = truth.experiment.shards
    own = np.unique(np.concatenate([shards[k].node_ids.numpy() for k in adversary.clients]))
    held = np.unique(truth.experiment.partition.nodes.numpy())
    others = np.setdiff1d(held, own)
    source, target = truth.graph.edge_index.numpy()
    across = np.isin(source, own) & np.isin(target, others)
    chosen = choose(np.unique(source[across]), MANY_NODES, rng)
    kept = across & np.isin(source, chosen)
    edges = np.stack([source[kept], target[kept]], 1)
    if len(edges) < LEAST_EDGES:
        raise CannotAttack(f"{len(edges)} edges to others' nodes; {LEAST_EDGES} are needed")
    pairs = np.concatenate([edges, _without_edge(edges, others, truth.graph.num_nodes, rng)])
    so = np.arange(len(pairs)) < len(edges)
    order = rng.permutation(len(pairs))
    return LinkGame(
        question=OthersLinks(ids=pairs[order]),
        metric="AUC over pairs of an own and another's node",
        unit="edge",
        truth=so[order].astype(np.int64),
        prior_scores=link_prior(truth, adversary, pairs[order], so[order].astype(np.int64)),
    )


def _without_edge(
    edges: NDArray[np.int64], others: NDArray[np.int64], size: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    drawn = np.stack(
        [
            rng.choice(edges[:, 0], NON_EDGES * len(edges)),
            rng.choice(others, NON_EDGES * len(edges)),
        ],
        1,
    )
    linked = np.isin(drawn @ [size, 1], edges @ [size, 1])
    found: NDArray[np.int64] = drawn[~linked]
    return found
