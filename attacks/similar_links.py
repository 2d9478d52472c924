"""F3: links from similarity: nodes that are linked have embeddings alike.

The textbook attack on embeddings (He et al., "Stealing Links from Graph Neural Networks", USENIX
Security 2021, attack 0): score every pair by the cosine of its two rows. It needs nothing but the
rows, so it serves as the floor for cleverer attacks.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, CannotAttack, Targets, View

ROWS = {"fedgl": (("fedgl.Update", "embeddings"), ("fedgl.Update", "predictions"))}


def run(view: View, targets: Targets, rng: np.random.Generator) -> Array:
    rows = client_rows(view, targets.client or 0)
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    first, second = targets.ids.T
    cosine: Array = np.einsum("nd,nd->n", unit[first], unit[second])
    return cosine


def client_rows(view: View, client: int) -> Array:
    """The client's rows of the last recorded round, over the global index."""
    for kind, name in ROWS[view.method]:
        try:
            found = view.best_rows(kind, name)
        except CannotAttack:
            continue
        mine = [m for m in found if client in m.clients.numbers()]
        if mine:
            last = mine[-1]
            return last.value[last.clients.numbers().index(client)].double().numpy()
    raise CannotAttack("no rows of this client are in the view")


ATTACK = Attack(
    name="similar_links",
    summary="a client's edges, from the cosine of uploaded rows",
    source="He et al. 2021, attack 0",
    needs="one client's uploaded embeddings or predictions",
    methods=frozenset(ROWS),
    adversaries=frozenset({"server"}),
    game="client_links",
    floor=0.1,
    expected="AUC 0.79 on Cora's hidden embeddings",
    run=run,
    rounds=1,
)
