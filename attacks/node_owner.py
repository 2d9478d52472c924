"""Which client has a node, from which client's first layer moved most along its features.

A record x that a client trains on moves its first matrices by errors times x, so W's change times x
is large there and small at clients without such records. Whatever moves all clients alike (classes,
common words) is divided out: the score is the client's share of all clients' movement along x. No
equations of the network are needed, and no optimizer is excluded. The question is CC-MIA's (which
client a member belongs to, Hu et al. 2021 for horizontal federated learning); derived here.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, CannotAttack, View
from attacks.leaning import HEDGED, largest_shift, leaning
from attacks.models import MODEL, first_layers, layout_of
from attacks.questions import HeldNodes

ROUNDS = 5


def run(view: View, question: HeldNodes, rng: np.random.Generator) -> Array:
    if not question.known.size:
        raise CannotAttack("the targets' features are not known")
    rows = question.known.astype(np.float64)
    moved: dict[int, list[Array]] = {}
    for _, client, weight, _ in first_layers(view):
        own = moved.setdefault(client, [])
        if len(own) < ROUNDS:
            own.append(np.square(rows @ weight.T).sum(1))
    if question.client not in moved:
        raise CannotAttack(f"client {question.client} uploaded nothing that can be read")
    shares = {client: _shares(np.sum(own, 0)) for client, own in moved.items()}
    evidence = shares[question.client] / np.maximum(sum(shares.values()), 1e-300)
    noise = view.best_rows(MODEL)[0].noise
    count = len(moved[question.client])
    # A hint, even without noise: it orders what a prior leaves open.
    shift = min(HEDGED, largest_shift(noise, len(rows) ** -0.5, count))
    return leaning(np.round(evidence, 9), question.prior, shift)


def _shares(along: Array) -> Array:
    """Of a client's movement along all targets: clients move by lengths of their own."""
    found: Array = along / max(float(along.sum()), 1e-300)
    return found


def _several_read_features(view: View) -> str | None:
    if view.public.num_clients < 2:
        return "there is one client"
    return None if layout_of(view).inputs else "which weights multiply features is not known"


ATTACK = Attack(
    name="node_owner",
    summary="which client has a node, from whose first layer moved along its features",
    source="derived here; the question is that of Hu et al. 2021, source inference",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="all clients' uploaded models, and the features of the persons that are sought",
    adversaries=frozenset({"server"}),
    question=HeldNodes,
    floor=0.05,
    expected="AUC 0.65 to 0.9 where clients hold communities; no gain where they overlap",
    exposes="at which client a known person's record is: the clinic, the bank, the school",
    stopped_by="masks, which leave one sum for all clients; noise on the update",
    run=run,
    rounds=ROUNDS,
    applies_to=_several_read_features,
)
