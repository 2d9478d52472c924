"""Was this node's label trained on? The loss threshold: a model is surer of what it has seen.

Yeom et al., "Privacy Risk in Machine Learning: Analyzing the Connection to Overfitting", CSF 2018:
score = -CE(f(x), y). It needs no shadow models and is the floor for those that do.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, View
from attacks.confidence import answered, beside_the_prior, log_confidence
from attacks.questions import Membership
from securefg.protocol.meanings import Answers


def run(view: View, question: Membership, rng: np.random.Generator) -> Array:
    scores = log_confidence(answered(view, question), question.labels)
    return beside_the_prior(view, question, scores)


ATTACK = Attack(
    name="membership_loss",
    summary="whether a node's label was trained on, from the model's loss on it",
    source="Yeom et al. 2018",
    needs=(Answers(),),
    assumes="the released model's answers, and the targets' labels",
    adversaries=frozenset({"outsider", "server"}),
    question=Membership,
    floor=0.05,
    expected="AUC 0.88 to 0.89 on an over-trained GCN on Cora, 0.74 averaged over small silos",
    exposes="that a person was among those whose labels were trained on",
    stopped_by="noise per person; fewer rounds; masks do not",
    run=run,
    rounds=30,
)
