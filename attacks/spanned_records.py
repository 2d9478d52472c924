"""Which records of a list a client's graph has, from the span of its first layer's change.

The first step of GRAIN (Drencheva et al. 2025), our own code: a record that a label reaches lies in
the span of the change (see `row_spans`), any other with chance zero. Where a layer has several
matrices (own and neighbours' rows), the one in whose span the most lies is the one over own rows.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, View
from attacks.client_models import MODEL
from attacks.evidence import leaning
from attacks.questions import ListedRecords
from attacks.row_spans import INSIDE, moved_by, reads_a_span


def run(view: View, question: ListedRecords, rng: np.random.Generator) -> Array:
    """ListedRecords are pairs of a client k and a record c of the list, as k n + c."""
    clients, records = np.divmod(question.ids, len(question.known))
    rows = question.known.astype(np.float64)
    changes = moved_by(view, set(clients.tolist()))
    evidence = np.zeros(len(question.ids))
    for client, parts in changes.items():
        asked = clients == client
        apart = np.stack([part.outside(rows[records[asked]]) for part in parts])
        own = apart[(apart < INSIDE).sum(1).argmax()]
        # Whatever is not inside is as good as any other: how far it is outside says little.
        evidence[asked] = np.where(own < INSIDE, 1 - own, 0)
    return leaning(evidence, question.prior)


ATTACK = Attack(
    name="spanned_records",
    summary="which records of a list a client's graph has, from the span of its first update",
    source="GRAIN, Drencheva et al. 2025, first step; Petrov et al. 2024 for text",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="one upload of a client that trains by gradient descent, and a list of records with "
    "the client's among them",
    adversaries=frozenset({"server"}),
    question=ListedRecords,
    floor=0.1,
    expected="exact for every node that a label reaches, for up to as many nodes as units",
    exposes="that a person's record is at this client, out of any list that has it",
    stopped_by="noise on the update; masks over many clients; more nodes than units; Adam",
    run=run,
    rounds=1,
    applies_to=reads_a_span,
)
