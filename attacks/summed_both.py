"""Whether a node's label is in two sums, read together, to somebody who knows all the others.

The noises are independent, so the log likelihood ratios add up, each over its own variance.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, CannotAttack, View
from attacks.known_others import known, observed, ratios
from attacks.questions import SummedBoth
from securefg.protocol.meanings import Statistic

SUMS = (Statistic(form="by_class"), Statistic(form="moments"))
NO_NOISE = 1e-3


def run(view: View, question: SummedBoth, rng: np.random.Generator) -> Array:
    without, moves = known(question)
    seen = [observed(view, need) for need in SUMS]
    if sum(map(len, seen)) != without.shape[1]:
        raise CannotAttack("the sums are not of the shape that was made again")
    score, start = np.zeros(len(question.ids)), 0
    for need, value in zip(SUMS, seen, strict=True):
        part = slice(start, start + len(value))
        start += len(value)
        score = score + ratios(value, without[:, part], moves[:, part]) / _variance(view, need)
    return score


def _variance(view: View, need: Statistic) -> float:
    """Of the noise on every number of the sum: each client's adds up."""
    sent = view.sums(need) or view.uploads(need)
    noise = sent[0].noise
    count = sum(len(message.clients) for message in sent)
    return NO_NOISE**2 if noise is None else count * noise.sd**2


ATTACK = Attack(
    name="summed_both",
    summary="whether a label is in both sums of a round, read together, knowing everybody else",
    source="the definition of differential privacy; Neyman and Pearson 1933",
    needs=SUMS,
    assumes="both sums of round 1; all other nodes, and the targets but for whether they train",
    adversaries=frozenset({"server"}),
    question=SummedBoth,
    floor=0.2,
    expected="AUC 1.00 on sums without noise",
    exposes="that one person's label was in the sums, to somebody who knows all the others",
    stopped_by="noise per person in the sums, sized for both together; masks do not",
    run=run,
    rounds=1,
)
