"""The labels that others trained on, read off what the released model answers about their nodes.

A model repeats the labels it was given; what it says of unlabelled nodes is its purpose, and what
it says better of labelled ones is memory. Any client that gets the model can ask it.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, CannotAttack, View
from attacks.questions import OthersLabels
from securefg.protocol.meanings import Answers


def run(view: View, question: OthersLabels, rng: np.random.Generator) -> Array:
    if view.answers is None:
        raise CannotAttack("the released model answers for no nodes")
    found: Array = view.answers[question.ids].argmax(1).double().numpy()
    return found


ATTACK = Attack(
    name="answered_labels",
    summary="the labels others trained on, from what the released model answers",
    source="F5, for whoever may ask the released model",
    needs=(Answers(),),
    assumes="the released model's answers about others' nodes",
    adversaries=frozenset({"client"}),
    question=OthersLabels,
    floor=0.02,
    expected="0.9 to 1.0 on labelled nodes where unlabelled ones get 0.8, if trained for long",
    exposes="the label of a person at another client, as that client has it on record",
    stopped_by="noise per person; fewer rounds; not answering for others' nodes; masks do not",
    run=run,
    rounds=30,
)
