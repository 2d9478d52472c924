"""Attacks on counts of neighbours' labels, by an adversary who knows everybody but the target."""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, View
from attacks.questions import CountedLabels, CountedLinks
from attacks.sums import sum_likelihoods
from securefg.protocol.meanings import Statistic

COUNTS = Statistic("labels", "counts")


def counted_links(view: View, question: CountedLinks, rng: np.random.Generator) -> Array:
    """Score whether two nodes are linked, by the counts of their neighbours' labels."""
    return sum_likelihoods(view, question, COUNTS)


COUNTED_LINKS = Attack(
    name="counted_links",
    summary="whether two nodes are linked, in counts of neighbours' labels, knowing all else",
    source="the definition of differential privacy; Dwork and Roth 2014, section 2.3",
    needs=(COUNTS,),
    assumes="the counts of round 1, or a release that holds them; all nodes, and all other links",
    adversaries=frozenset({"server", "outsider"}),
    question=CountedLinks,
    floor=0.2,
    expected="AUC 1.00 on counts without noise, where one of the two nodes trains",
    exposes="that two people are connected, if all else is known",
    stopped_by="noise per edge or person on the counts; masks do not",
    run=counted_links,
    rounds=1,
)


def counted_labels(view: View, question: CountedLabels, rng: np.random.Generator) -> Array:
    """Score whether a node's label is in the counts of its neighbours."""
    return sum_likelihoods(view, question, COUNTS)


COUNTED_LABELS = Attack(
    name="counted_labels",
    summary="whether a label is in counts of neighbours' labels, knowing everybody else",
    source="the definition of differential privacy; Dwork and Roth 2014, section 2.3",
    needs=(COUNTS,),
    assumes="the counts of round 1, or a release that holds them; all nodes but for who trains",
    adversaries=frozenset({"server", "outsider"}),
    question=CountedLabels,
    floor=0.2,
    expected="AUC 1.00 on counts without noise, as far as the nodes have links",
    exposes="that one person's label was counted, if everybody else is known",
    stopped_by="noise per person on the counts; masks do not",
    run=counted_labels,
    rounds=1,
)

ATTACKS = (COUNTED_LINKS, COUNTED_LABELS)
