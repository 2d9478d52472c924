"""An attack of your own: was this node's label trained on? From the margin of its class."""

import numpy as np

from attacks.questions import Membership
from securefg import Array, Attack, CannotAttack, View
from securefg.protocol.meanings import Answers


def run(view: View, question: Membership, rng: np.random.Generator) -> Array:
    """The margin of the true class: confidence without any normalisation."""
    if view.answers is None:
        raise CannotAttack("the released model answers for no node")
    logits = view.answers[question.ids].double().numpy()
    own = logits[np.arange(len(logits)), question.labels]
    logits[np.arange(len(logits)), question.labels] = -np.inf
    return own - logits.max(1)


ATTACK = Attack(
    name="margin",
    summary="whether a node's label was trained on, from the margin of its class",
    source="a floor below the loss threshold",
    needs=(Answers(),),
    assumes="the released model's answers, and the targets' labels",
    adversaries=frozenset({"outsider"}),
    question=Membership,
    floor=0.05,
    expected="a little under the loss threshold",
    run=run,
)
