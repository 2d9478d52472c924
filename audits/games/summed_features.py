"""Is a node's label in features summed by class? The adversary knows all other nodes."""

from __future__ import annotations

import numpy as np

from audits.games.base import BinaryGame
from audits.games.known_others import known_members
from audits.truth import Truth
from securefg.protocol.meanings import Statistic
from securefg.protocol.transcript import Adversary

CLOSED_FORM = True


def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    return known_members(truth, Statistic(form="by_class"), adversary, rng)
