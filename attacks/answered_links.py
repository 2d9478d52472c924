"""Links from the released model's answers alone, by a classifier that a known graph taught.

He et al. 2021: linked nodes have posteriors alike, and how alike is learnt on a shadow graph: a
client's own shard, or, for an outsider, a part of the joint graph that it knows from elsewhere. The
prior of all link games is the best likeness of two answers; the gain is what learning adds to it.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from attacks.base import Array, Attack, CannotAttack, View
from attacks.pair_classifier import Pairs, described, entropies, learnt, shadow_links
from attacks.questions import StolenLinks
from attacks.rows import cosines
from securefg.protocol.meanings import Answers


def run(view: View, question: StolenLinks, rng: np.random.Generator) -> Array:
    if view.answers is None:
        raise CannotAttack("the run released no model that answers for nodes")
    shadow_links(question)
    shadow, wanted = (
        described_answers(view.answers, pairs) for pairs in (question.shadow_pairs, question.ids)
    )
    return learnt(question, shadow, wanted, likenesses(view.answers, question.shadow_pairs))


def described_answers(answers: Tensor, pairs: Pairs) -> Array:
    """Logits and probabilities of both nodes, compared."""
    rows = answers.double()
    logits: Array = (rows - rows.mean(1, keepdim=True)).numpy()
    probabilities: Array = rows.softmax(-1).numpy()
    parts = [described(logits, pairs), described(probabilities, pairs)]
    return np.concatenate([*parts, entropies(probabilities, pairs)], 1)


def likenesses(answers: Tensor, pairs: Pairs) -> list[Array]:
    """What needs no learning: nearness of two answers, and the cosine of what is above the mean."""
    rows: Array = answers.double().softmax(-1).numpy()
    near = -np.abs(rows[pairs[:, 0]] - rows[pairs[:, 1]]).sum(1)
    return [near, cosines(rows - rows.mean(0), pairs)]


ATTACK = Attack(
    name="answered_links",
    summary="others' edges, from two nodes' answers, by a classifier that a known graph taught",
    source="He et al. 2021, with the adversary's own shard or a known part as the shadow graph",
    needs=(Answers(),),
    assumes="the released model's answers for all nodes; edges of a client's own shard, or of half "
    "of the nodes",
    adversaries=frozenset({"client", "outsider"}),
    question=StolenLinks,
    floor=0.02,
    expected="AUC 0.95 to 0.96 on Cora, where the likeness of answers has 0.93",
    exposes="that two people are connected, to somebody who may only ask for predictions",
    stopped_by="not answering for others' nodes; answers of a label without numbers; noise on the "
    "edges; masks do not",
    run=run,
    rounds=10,
)
