"""Whether a node's label was in training, from all that was released, knowing everybody else.

What would have been released with the target, and without it? Every released tensor gives a
likelihood ratio along the difference; its noise is read off how the targets scatter.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, CannotAttack, View
from attacks.known_others import known, ratios
from attacks.questions import ReleasedOthers
from securefg.protocol.meanings import Release


def run(view: View, question: ReleasedOthers, rng: np.random.Generator) -> Array:
    without, moves = known(question)
    if sum(value.numel() for value in view.released.values()) != without.shape[1]:
        raise CannotAttack("the release is not of the shape that was made again")
    score, start = np.zeros(len(question.ids)), 0
    for value in view.released.values():
        part = slice(start, start + value.numel())
        start += value.numel()
        seen = value.double().flatten().numpy()
        score = score + _weighed(seen, without[:, part], moves[:, part])
    return score


def _weighed(seen: Array, without: Array, moves: Array) -> Array:
    """The ratios over the noise along a target, which is alike for all of them."""
    found, sizes = ratios(seen, without, moves), np.linalg.norm(moves, axis=1).clip(1e-12)
    low, high = np.quantile(found / sizes + sizes / 2, [0.25, 0.75])
    weighed: Array = found / max(float(high - low) ** 2, 1e-12)
    return weighed


ATTACK = Attack(
    name="released_others",
    summary="whether a node's label was in training, from the release, knowing everybody else",
    source="the definition of differential privacy; Dwork and Roth 2014, section 2.3",
    needs=(Release(),),
    assumes="the release; all other nodes, and the targets but for whether they train",
    adversaries=frozenset({"client", "outsider"}),
    question=ReleasedOthers,
    floor=0.2,
    expected="AUC 1.00 where sums of one round without noise make the model",
    exposes="that one person's label was trained on, to somebody who knows all the others",
    stopped_by="noise per person in what makes the release; masks do not",
    run=run,
    rounds=1,
)
