"""P1: which public nodes have a private neighbour in common, from their uploaded rows.

Skip-gram puts nodes together that walks see together, and attention mixes what is around a node. A
private node that stands between two public ones pulls their rows together, though they are not
linked: the cosine of two uploaded rows tells of a node that nobody else has heard of. The control
is the cosine after the same training on the public nodes alone. All rounds are averaged: walks are
drawn anew in each, so the mean tells more than any. Derived here; He et al. 2021 do so for links.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, View
from attacks.leaning import leaning, pair_shift
from attacks.questions import SharedNeighbour
from attacks.rows import cosines, embeddings, noise_of
from securefg.protocol.meanings import NodeRows

ROWS = NodeRows(index="public")


def run(view: View, question: SharedNeighbour, rng: np.random.Generator) -> Array:
    """SharedNeighbour are pairs of rows of the upload."""
    rounds = embeddings(view, question.client or 0, ROWS)
    mean: Array = np.mean([cosines(rows, question.ids) for rows in rounds.values()], axis=0)
    width = next(iter(rounds.values())).shape[1]
    return leaning(mean, question.prior, pair_shift(noise_of(view, ROWS), width, len(rounds)))


ATTACK = Attack(
    name="shared_neighbour",
    summary="which public nodes share a private neighbour, from the cosine of uploaded rows",
    source="P1; the idea of He et al. 2021, attack 0, for nodes between public ones",
    needs=(ROWS,),
    assumes="one client's uploaded rows; which rows are the public nodes'",
    adversaries=frozenset({"server"}),
    question=SharedNeighbour,
    floor=0.05,
    expected="Cora: AUC 0.98 for walks, where public nodes alone give 0.68; GAT 0.88 and 0.79",
    exposes="that two known persons share a contact whom only one client knows",
    stopped_by="masks; noise on the rows",
    run=run,
    rounds=10,
)
