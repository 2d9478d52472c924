"""Which label a training node has, from features summed by class, knowing everybody else."""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, CannotAttack, View
from attacks.known_others import observed, ratios
from attacks.questions import SummedLabels
from securefg.protocol.meanings import Statistic

SUM = Statistic(form="by_class")


def run(view: View, question: SummedLabels, rng: np.random.Generator) -> Array:
    """The label with which the sum is likeliest."""
    if question.sum_without is None or question.moves is None:
        raise CannotAttack("the adversary does not know the other nodes")
    count, classes = question.moves.shape[:2]
    seen, without = observed(view, SUM), question.sum_without.reshape(count, -1)
    moves = question.moves.reshape(count, classes, -1)
    found = [ratios(seen, without, moves[:, label]) for label in range(classes)]
    guess: Array = np.stack(found, 1).argmax(1).astype(np.float64)
    return guess


ATTACK = Attack(
    name="summed_labels",
    summary="which label a node has in features summed by class, knowing everybody else",
    source="the definition of differential privacy; Dwork and Roth 2014, section 2.3",
    needs=(SUM,),
    assumes="the sum of round 1; all other nodes, and the targets but for their labels",
    adversaries=frozenset({"server"}),
    question=SummedLabels,
    floor=0.2,
    expected="all labels of nodes with features, on sums without noise",
    exposes="which label one person has, to somebody who knows all the others",
    stopped_by="noise per person in the sums; masks do not",
    run=run,
    rounds=1,
)
