"""F3: links from similarity: nodes that are linked have embeddings alike.

The textbook attack on embeddings (He et al., "Stealing Links from Graph Neural Networks", USENIX
Security 2021, attack 0): score every pair by the cosine of its two rows. It needs nothing but the
rows, so it serves as the floor for cleverer attacks.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, Targets, View
from attacks.client_rows import client_rounds, cosines
from securefg.protocol.meanings import NodeRows, Predictions

ROWS = (NodeRows(index="nodes"), Predictions("nodes"))


def run(view: View, targets: Targets, rng: np.random.Generator) -> Array:
    rounds = client_rounds(view, targets.client or 0, ROWS)
    return cosines(rounds[max(rounds)].double().numpy(), targets.ids)


ATTACK = Attack(
    name="similar_links",
    summary="a client's edges, from the cosine of uploaded rows",
    source="He et al. 2021, attack 0",
    needs=(ROWS,),
    assumes="one client's uploaded embeddings or predictions",
    adversaries=frozenset({"server"}),
    game="client_links",
    floor=0.1,
    expected="AUC 0.79 on Cora's hidden embeddings",
    exposes="who is connected to whom at one client",
    stopped_by="masks; noise on the rows",
    run=run,
    rounds=1,
)
