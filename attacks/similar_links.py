"""F3: links from similarity: nodes that are linked have embeddings alike.

The textbook attack on embeddings (He et al., "Stealing Links from Graph Neural Networks", USENIX
Security 2021, attack 0): score every pair by the cosine of its two rows. It needs nothing but the
rows, so it serves as the floor for cleverer attacks.
"""

from __future__ import annotations

import numpy as np
import torch

from attacks.base import Array, Attack, View
from attacks.leaning import leaning, pair_shift
from attacks.questions import ClientLinks
from attacks.rows import client_rounds, cosines, noise_of
from securefg.protocol.meanings import NodeRows, Predictions

ROWS = (NodeRows(index="nodes"), Predictions("nodes"))


def run(view: View, question: ClientLinks, rng: np.random.Generator) -> Array:
    rounds, noise = client_rounds(view, question.client or 0, ROWS), noise_of(view, ROWS)
    # The last rows say most; under noise all say little, and together more.
    chosen = [rounds[max(rounds)]] if noise is None else list(rounds.values())
    rows = torch.cat(chosen, 1).double().numpy()
    shift = pair_shift(noise, chosen[0].shape[1], len(chosen))
    return leaning(cosines(rows, question.ids), question.prior, shift)


ATTACK = Attack(
    name="similar_links",
    summary="a client's edges, from the cosine of uploaded rows",
    source="He et al. 2021, attack 0",
    needs=(ROWS,),
    assumes="one client's uploaded embeddings or predictions",
    adversaries=frozenset({"server"}),
    question=ClientLinks,
    floor=0.1,
    expected="AUC 0.79 on Cora's hidden embeddings",
    exposes="who is connected to whom at one client",
    stopped_by="masks; noise on the rows",
    run=run,
    rounds=5,
)
