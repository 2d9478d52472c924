"""Has a client more of a class than others? Read off the output layer that it uploads."""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, View
from attacks.class_pull import has_an_output, scores
from attacks.client_models import MODEL
from attacks.questions import ClassRatios


def run(view: View, question: ClassRatios, rng: np.random.Generator) -> Array:
    return scores(view, question.ids, rng)


ATTACK = Attack(
    name="class_ratios",
    summary="which classes a client has more of than others, from its uploaded output layer",
    source="Zhao et al. 2020, for shares; property inference after Ganju et al. 2018",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="the uploaded models of some rounds and the models sent; how common classes are",
    adversaries=frozenset({"server"}),
    question=ClassRatios,
    floor=0.1,
    expected="AUC 0.9 and more after one round, where clients differ",
    exposes="a property of a whole client: that a clinic has more of one disease than others",
    stopped_by="masks; noise on the update",
    run=run,
    rounds=3,
    applies_to=has_an_output,
)
