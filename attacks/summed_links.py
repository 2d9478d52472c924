"""Whether two nodes are linked, from summed second moments, knowing everybody else."""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, View
from attacks.known_others import likelihoods
from attacks.questions import SummedLinks
from securefg.protocol.meanings import Statistic

SUM = Statistic(form="moments")


def run(view: View, question: SummedLinks, rng: np.random.Generator) -> Array:
    return likelihoods(view, question, SUM)


ATTACK = Attack(
    name="summed_links",
    summary="whether two nodes are linked, in summed second moments, knowing all else",
    source="the definition of differential privacy; Dwork and Roth 2014, section 2.3",
    needs=(SUM,),
    assumes="the sum of round 1, or a release that holds it; all nodes, and all other links",
    adversaries=frozenset({"server", "outsider"}),
    question=SummedLinks,
    floor=0.2,
    expected="AUC 1.00 on sums without noise, as far as the two nodes move them at all",
    exposes="that two persons are connected, to somebody who knows all else",
    stopped_by="noise per edge or person in the sums; masks do not",
    run=run,
    rounds=1,
)
