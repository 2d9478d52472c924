"""P2: whether a node is among a client's private ones, from its uploaded rows.

LiRA (Carlini et al. 2022) on the Gram matrix, which no rotation changes. The adversary knows a
candidate's links to public nodes. It trains clients of its own with and without the candidate
(shadows), takes the mean cosine over all pairs of the candidate's public neighbours in round 1,
and weighs the observed one by the two normal laws; the variance is common to all
candidates, since there are few shadows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, Attack, CannotAttack, View
from attacks.likelihood import gaussian_log_ratio
from attacks.questions import Presence
from attacks.rows import cosines, embeddings
from securefg.protocol.meanings import NodeRows

ROWS = NodeRows(index="public")
ROUND = 1


def run(view: View, question: Presence, rng: np.random.Generator) -> Array:
    edges, uploads, member = question.edges, question.shadow_uploads, question.shadow_member
    if edges is None or uploads is None or member is None:
        raise CannotAttack("the candidates' links, or shadow clients, are missing")
    rounds = embeddings(view, question.client or 0, ROWS)
    if ROUND not in rounds:
        raise CannotAttack(f"the rows of round {ROUND} are not in the view")
    groups = [edges[1][edges[0] == i] for i in range(len(question.ids))]
    observed = closeness(rounds[ROUND], groups)
    made = np.stack([closeness(rows.astype(np.float64), groups) for rows in uploads])
    inside, outside = _mean(made, member), _mean(made, ~member)
    centred = made - np.where(member, inside, outside)
    spread = max(float(centred.std()), 1e-9)
    return gaussian_log_ratio(observed, inside, spread, outside, spread)


def closeness(rows: Array, groups: list[NDArray[np.int64]]) -> Array:
    """For every group of rows the mean cosine over its pairs."""
    found = []
    for group in groups:
        first, second = np.triu_indices(len(group), 1)
        found.append(cosines(rows, np.stack([group[first], group[second]], 1)).mean())
    return np.array(found)


def _mean(values: Array, chosen: NDArray[np.bool_]) -> Array:
    found: Array = np.where(chosen, values, 0).sum(0) / chosen.sum(0)
    return found


ATTACK = Attack(
    name="presence",
    summary="whether a node is among a client's private ones, by LiRA on the rows' Gram matrix",
    source="P2; Carlini et al. 2022",
    needs=(ROWS,),
    assumes="round 1's uploaded rows; candidates' links to public nodes; shadow clients' data",
    adversaries=frozenset({"server"}),
    question=Presence,
    floor=0.1,
    expected="AUC 0.87 on rows from walks over Cora, for nodes with two public neighbours or more",
    exposes="that a person is a customer of one client, who told nobody",
    stopped_by="masks; noise on the rows",
    run=run,
    rounds=2,
)
