"""An attack with a question of its own: which nodes have many links? From how sure answers are."""

from dataclasses import dataclass

import numpy as np

from securefg import Array, Attack, CannotAttack, Question, View
from securefg.protocol.meanings import Answers


@dataclass(frozen=True)
class Hubs(Question, name="hubs", played_in="hubs_game"):
    """Which of these nodes have more links than most?"""


def hubs(view: View, question: Hubs, rng: np.random.Generator) -> Array:
    """Return the size of a node's answer: a mean over many neighbours is near the common mean."""
    if view.answers is None:
        raise CannotAttack("the released model answers for no node")
    rows = view.answers.double()
    sizes: Array = (rows - rows.mean(0)).norm(dim=1).numpy()
    return -sizes[question.ids]


ATTACK = Attack(
    name="hubs",
    summary="which nodes have many links, from how far their answers are from the mean answer",
    source="an example",
    needs=(Answers(),),
    assumes="the released model's answers for all nodes",
    adversaries=frozenset({"outsider"}),
    question=Hubs,
    floor=0.02,
    expected="not known",
    run=hubs,
)
