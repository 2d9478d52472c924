"""F2: the words around a node, from hidden embeddings and the models that made them.

H = ReLU(S W0) with S = A_hat X, the node's features mixed with its neighbours'. Where an entry of H
is positive it is a linear measurement of the node's row of S; S never changes while W0 does, so
rounds add measurements until the non-negative sparse row is determined. Derived here.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, CannotAttack, View
from attacks.client_models import MODEL, client_models, layout_of, of_form
from attacks.client_rows import client_rounds, noise_of
from attacks.non_negative import non_negative
from attacks.questions import NeighbourhoodWords
from securefg.protocol.meanings import NodeRows

HIDDEN = NodeRows("hidden", "nodes")
ROUNDS = 20
PATIENCE = 60
UNSEEN = 1e-3
"""Variance granted to words that the prior does not know."""


def run(view: View, question: NeighbourhoodWords, rng: np.random.Generator) -> Array:
    client, layout = question.client or 0, layout_of(view)
    models, hidden = client_models(view, client), client_rounds(view, client, HIDDEN)
    rounds = sorted(models.keys() & hidden.keys())[:ROUNDS]
    if not rounds:
        raise CannotAttack(f"client {client}'s model and embeddings are in no round both readable")
    layers = [layout.part(models[t].uploaded, layout.inputs[0]) for t in rounds]
    design = np.concatenate([layer.double().numpy() for layer in layers], 1).T
    rows = np.concatenate([hidden[t][question.ids].double().numpy() for t in rounds], 1)
    noise = noise_of(view, HIDDEN)
    if noise is not None and question.prior is not None:
        return decoded(design, rows, question.prior, noise.sd)
    found = np.zeros((len(rows), design.shape[1]))
    for i, row in enumerate(rows):
        seen = row > 1e-6
        if seen.any():
            found[i] = non_negative(design[seen], row[seen], PATIENCE)
    return found


def decoded(design: Array, rows: Array, prior: Array, noise_sd: float) -> Array:
    """p + V D^T (D V D^T + sd^2 I)^-1 (h - D p) with V = p (1 - p), all rows at once: under noise
    no search for sparse rows is worth its time, and the prior is what is left."""
    share = prior.mean(0)
    spread = (share * (1 - share) + UNSEEN) * design
    gain = np.linalg.solve(spread @ design.T + noise_sd**2 * np.eye(len(design)), spread)
    found: Array = prior + (rows - prior @ design.T) @ gain
    return found


ATTACK = Attack(
    name="hidden_features",
    summary="the words of a node and its neighbours, from hidden embeddings",
    source="F2: H = ReLU(A_hat X W0), non-negative least squares on the positive entries",
    needs=(HIDDEN, MODEL),
    hears=(MODEL,),
    assumes="one client's hidden embeddings and models over some rounds",
    adversaries=frozenset({"server"}),
    question=NeighbourhoodWords,
    floor=0.2,
    expected="all words of a neighbourhood after 20 rounds on Cora",
    exposes="which words a person or one of its contacts has on record",
    stopped_by="uploading the final layer in place of the hidden one; masks; noise on the rows",
    run=run,
    rounds=20,
    applies_to=of_form("gcn2"),
)
