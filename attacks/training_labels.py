"""F5: the labels that a client trained on, read off its uploaded predictions.

A trained model repeats the labels it was given. What it says of unlabelled nodes is its purpose;
what it says better of labelled ones is memory, so that difference is what counts.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, View
from attacks.client_rows import class_shares
from attacks.questions import TrainingLabels
from securefg.protocol.meanings import Predictions


def run(view: View, question: TrainingLabels, rng: np.random.Generator) -> Array:
    rounds = class_shares(view, question.client or 0)
    last = rounds[max(rounds)]
    found: Array = last[question.ids].argmax(1).double().numpy()
    return found


ATTACK = Attack(
    name="training_labels",
    summary="the labels a client trained on, from its uploaded predictions",
    source="F5: accuracy on labelled nodes above the accuracy on unlabelled ones",
    needs=(Predictions("nodes"),),
    assumes="one client's uploaded predictions",
    adversaries=frozenset({"server"}),
    question=TrainingLabels,
    floor=0.02,
    expected="0.9 to 1.0 on labelled nodes where unlabelled ones get 0.8",
    exposes="the label of a person, as the client has it on record",
    stopped_by="masks; noise on the predictions; not uploading predictions",
    run=run,
    rounds=10,
)
