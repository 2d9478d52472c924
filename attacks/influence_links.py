"""Links of a client's nodes to others' nodes, from what a change of features does to the answers.

LinkTeller (Wu et al., IEEE S&P 2022): in a graph convolution the answer for u depends on the
features of v only where u is within reach of v, and most where they are linked. A client that may
query the released model multiplies the features of one of its nodes by 1 + delta, asks again, and
scores every other node by how far its answer moved. It finds edges that it does not hold: those of
shared nodes that other clients see.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attacks.base import Array, Attack, CannotAttack, View
from attacks.questions import OthersLinks
from securefg.protocol.meanings import Answers

DELTA = 0.01


def run(view: View, question: OthersLinks, rng: np.random.Generator) -> Array:
    """OthersLinks are pairs: a node of the adversary's own, and one of somebody else's."""
    if view.query is None or view.answers is None:
        raise CannotAttack("the released model cannot be queried from here")
    rows = _own_rows(view)
    scores = np.zeros(len(question.ids))
    for node in np.unique(question.ids[:, 0]).tolist():
        if node not in rows:
            raise CannotAttack(f"node {node} is not the adversary's own: it cannot change it")
        changed = view.query(torch.tensor([node]), (1 + DELTA) * rows[node][None])
        moved = (changed - view.answers).double().norm(dim=1).numpy()
        asked = question.ids[:, 0] == node
        scores[asked] = moved[question.ids[asked, 1]] / DELTA
    return scores


def _own_rows(view: View) -> dict[int, Tensor]:
    found: dict[int, Tensor] = {}
    for shard in view.own:
        found |= dict(zip(shard.node_ids.tolist(), shard.graph.features, strict=True))
    return found


ATTACK = Attack(
    name="influence_links",
    summary="edges of shared nodes that others hold, from how a change of features moves answers",
    source="LinkTeller, Wu et al. 2022",
    needs=(Answers(),),
    assumes="queries of the released model on all nodes, with the client's own features changed",
    adversaries=frozenset({"client"}),
    question=OthersLinks,
    floor=0.1,
    expected="AUC 0.99: two layers reach two hops, and one hop weighs most",
    exposes="that a person known to one client is connected to a person at another",
    stopped_by=(
        "not answering for other clients' nodes; noise on the edges; noise on uploads does not"
    ),
    run=run,
    rounds=10,
)
