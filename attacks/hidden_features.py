"""F2: the words around a node, from hidden embeddings and the models that made them.

H = ReLU(S W0) with S = A_hat X, the node's features mixed with its neighbours'. Where an entry of H
is positive it is a linear measurement of the node's row of S; S never changes while W0 does, so
rounds add measurements until the non-negative sparse row is determined. Derived here.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, CannotAttack, Targets, View
from attacks.fedgl_uploads import client_field, client_models, shape_of
from attacks.non_negative import non_negative

ROUNDS = 20
PATIENCE = 60


def run(view: View, targets: Targets, rng: np.random.Generator) -> Array:
    client, shape = targets.client or 0, shape_of(view)
    models, hidden = client_models(view, client), client_field(view, client, "embeddings")
    rounds = sorted(models.keys() & hidden.keys())[:ROUNDS]
    if not rounds:
        raise CannotAttack(f"client {client}'s model and embeddings are in no round both readable")
    layers = [shape.split(models[t].uploaded)[0] for t in rounds]
    design = np.concatenate([layer.double().numpy() for layer in layers], 1).T
    rows = np.concatenate([hidden[t][targets.ids].double().numpy() for t in rounds], 1)
    found = np.zeros((len(rows), design.shape[1]))
    for i, row in enumerate(rows):
        seen = row > 1e-6
        if seen.any():
            found[i] = non_negative(design[seen], row[seen], PATIENCE)
    return found


def _needs_the_hidden_layer(settings: object) -> str | None:
    if getattr(settings, "embedding", "") != "hidden":
        return "the final layer is uploaded; the equations need the hidden one"
    return None if getattr(settings, "pseudo_graph", True) else "no embeddings are uploaded"


ATTACK = Attack(
    name="hidden_features",
    summary="the words of a node and its neighbours, from hidden embeddings",
    source="F2: H = ReLU(A_hat X W0), non-negative least squares on the positive entries",
    needs="one client's hidden embeddings and models over some rounds",
    methods=frozenset({"fedgl"}),
    adversaries=frozenset({"server"}),
    game="neighbourhood_words",
    floor=0.2,
    expected="all words of a neighbourhood after 20 rounds on Cora",
    run=run,
    rounds=20,
    applies_to=_needs_the_hidden_layer,
)
