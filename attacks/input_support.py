"""Which inputs a client's samples use, from the columns of the first layer that its uploads move.

An input that is zero in every sample has no gradient: its column of W's change is zero, bit for
bit, however many samples and steps there are. Melis et al. 2019 read words off text models so.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, CannotAttack, View
from attacks.client_models import MODEL
from attacks.first_layers import decay_cannot_be_followed, first_layers
from attacks.questions import ClientInputs


def run(view: View, question: ClientInputs, rng: np.random.Generator) -> Array:
    """(clients, inputs): how far an input's column moved in any round."""
    moved: dict[int, Array] = {}
    for _, client, weight, _ in first_layers(view):
        moved[client] = np.maximum(moved.get(client, 0.0), np.abs(weight).max(0))
    if missing := [k for k in question.ids.tolist() if k not in moved]:
        raise CannotAttack(f"client {missing[0]} uploaded nothing that can be read")
    return np.stack([moved[k] for k in question.ids.tolist()])


ATTACK = Attack(
    name="input_support",
    summary="which inputs a client's samples use, from columns of the first layer that moved",
    source="Melis et al. 2019",
    needs=(MODEL,),
    assumes="one upload of every client",
    adversaries=frozenset({"server"}),
    question=ClientInputs,
    floor=0.1,
    expected="every input, exactly",
    exposes="which words, codes or products occur at all in a client's records",
    stopped_by="masks, as to which client; noise on the update",
    run=run,
    rounds=1,
    applies_to=decay_cannot_be_followed,
)
