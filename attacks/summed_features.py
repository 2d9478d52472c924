"""Whether a node's label is in features summed by class, to somebody who knows all the others."""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, View
from attacks.known_others import likelihoods
from attacks.questions import SummedFeatures
from securefg.protocol.meanings import Statistic

SUM = Statistic(form="by_class")


def run(view: View, question: SummedFeatures, rng: np.random.Generator) -> Array:
    return likelihoods(view, question, SUM)


ATTACK = Attack(
    name="summed_features",
    summary="whether a label is in features summed by class, knowing everybody else",
    source="the definition of differential privacy; Dwork and Roth 2014, section 2.3",
    needs=(SUM,),
    assumes="the sum of round 1; all other nodes, and the targets but for whether they train",
    adversaries=frozenset({"server"}),
    question=SummedFeatures,
    floor=0.2,
    expected="AUC 1.00 on sums without noise",
    exposes="that one person's label was in a sum, to somebody who knows all the others",
    stopped_by="noise per person in the sums; masks do not",
    run=run,
    rounds=1,
)
