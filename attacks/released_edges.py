"""Is this edge in the graph that answers are computed on? Asked by who knows everything else.

What would be answered at the edge's two ends with it, and without? Whoever has the released model,
the features and all other edges can compute both, and looks on which side the answer lies. It is
the adversary of edge-level differential privacy, played on the answers: noise on what was uploaded
does not help, since the graph is used when an answer is made.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, CannotAttack, View
from attacks.known_others import known
from attacks.questions import KnownEdges
from securefg.protocol.meanings import Answers


def run(view: View, question: KnownEdges, rng: np.random.Generator) -> Array:
    """How far the answers went from what they were without the edge to what they were with it."""
    if view.answers is None:
        raise CannotAttack("the run released no model that answers for nodes")
    without, moves = known(question)
    seen: Array = view.answers.double().numpy()[question.ids].reshape(len(question.ids), -1)
    along = ((seen - without) * moves).sum(1)
    share: Array = along / np.square(moves).sum(1).clip(1e-12)
    return share.clip(-1, 2)


ATTACK = Attack(
    name="released_edges",
    summary="whether an edge is in the joint graph, from answers, knowing everything else",
    source="the definition of edge-level differential privacy; Kolluri et al. 2022 on inference",
    needs=(Answers(),),
    assumes="the released model's answers at both ends, its weights, all features, and all other "
    "edges",
    adversaries=frozenset({"client", "outsider"}),
    question=KnownEdges,
    floor=0.2,
    expected="AUC 1.00 wherever answers are computed with neighbours",
    exposes="that two people are connected, to somebody who knows the rest of the graph",
    stopped_by="answers that use no neighbours, or that stay at home; noise on the edges; neither "
    "masks nor noise on uploads",
    run=run,
    rounds=1,
)
