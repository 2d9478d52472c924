"""Is a node's label in features summed by class? The adversary knows all other nodes."""

from __future__ import annotations

import numpy as np

from attacks.questions import SummedFeatures
from audits.games.base import BinaryGame, plays
from audits.games.known_others import known_members
from audits.truth import Truth
from securefg.protocol.meanings import Statistic
from securefg.protocol.transcript import Adversary


@plays(SummedFeatures, closed_form=True)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    return known_members(SummedFeatures, truth, Statistic(form="by_class"), adversary, rng)
