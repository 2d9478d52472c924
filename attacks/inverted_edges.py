"""A client's edges from its first layer's change, by three systems of linear equations.

GraphSAGE's first layer is ReLU(W_l m_v + W_r x_v) with m_v the mean of v's neighbours. Both
matrices move by the same errors d_v behind them, summed over all local steps: W_r by D^T X, W_l by
D^T M. With the records X known (`spanned_records` finds them), D follows from the first, M from the
second, and P from M = P X: P_vu is one over v's degree where u is its neighbour, and zero else.
GRAIN (Drencheva et al. 2025) searches neighbourhoods by consistency; here they are solved for. A
layer of one matrix over A X (GCN) has A and D in one product, and is not solved.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, CannotAttack, View
from attacks.leaning import leaning
from attacks.models import INSIDE_SPAN, MODEL, SPAN_TRACE, Moved, layout_of, moved_by, reads_a_span
from attacks.questions import SmallGraphEdges

DECIMALS = 3


def run(view: View, question: SmallGraphEdges, rng: np.random.Generator) -> Array:
    if question.known is None or question.client is None:
        raise CannotAttack("the client's records are not known")
    parts = moved_by(view, {question.client})[question.client]
    weight = neighbours(parts, question.known.astype(np.float64))
    place = np.searchsorted(question.known_ids, question.ids)
    both: Array = np.maximum(weight[place[:, 0], place[:, 1]], weight[place[:, 1], place[:, 0]])
    rounded: Array = np.round(both, DECIMALS).astype(np.float64)
    return leaning(rounded, question.prior)


def neighbours(parts: list[Moved], rows: Array) -> Array:
    """(n, n): P, with rows of zeros where the change tells nothing of a node."""
    found = np.zeros((len(rows), len(rows)))
    outside = [part.outside(rows) for part in parts]
    own = int(np.argmax([(apart < INSIDE_SPAN).sum() for apart in outside]))
    reached = outside[own] < INSIDE_SPAN
    if not reached.any():
        return found
    errors = _solved(rows[reached].T, parts[own].change.T)
    means = _solved(errors.T, parts[1 - own].change)
    # What lies outside the records' span was no mean of them: such a node's errors were too small.
    shares = _solved(rows.T, means.T).T
    left = np.linalg.norm(shares @ rows - means, axis=1)
    sure = left < INSIDE_SPAN * np.linalg.norm(means, axis=1)
    found[reached] = np.where(sure[:, None], shares, 0).clip(0, 1)
    return found


def _solved(matrix: Array, right: Array) -> Array:
    found: Array = np.asarray(np.linalg.lstsq(matrix, right, rcond=SPAN_TRACE)[0], np.float64)
    return found


def _own_and_neighbours(view: View) -> str | None:
    matrices = len(layout_of(view).inputs)
    if matrices != 2:
        return (
            f"the first layer has {matrices} matrices over features; where own and neighbours' "
            "rows have one each, edges can be solved for"
        )
    return reads_a_span(view)


ATTACK = Attack(
    name="inverted_edges",
    summary="a client's edges, solved for from the change of its first layer",
    source="derived here; GRAIN, Drencheva et al. 2025, for the search that it replaces",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="one upload of a client that trains a GraphSAGE by gradient descent, and its records",
    adversaries=frozenset({"server"}),
    question=SmallGraphEdges,
    floor=0.1,
    expected="every edge at a node that a label reaches, exactly; no other",
    exposes="who is connected to whom at one client, from a single update and no embedding",
    stopped_by="noise on the update; masks over many clients; more nodes than units; Adam",
    run=run,
    rounds=1,
    applies_to=_own_and_neighbours,
)
