"""Which label does the server have on record for a user? The gradients it sends back tell."""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, CannotAttack, View
from attacks.decoders import ridge_decoded
from attacks.public_labels import one_hot, standardised
from attacks.questions import OwnLabels
from attacks.rows import Rows, by_round
from securefg.protocol.meanings import Gradient

LATENTS = Gradient("latent")
ROUNDS = 10


def downloaded_labels(view: View, question: OwnLabels, rng: np.random.Generator) -> Array:
    """Return the label on record of each colluding user, from the gradients that it was sent.

    The gradient of the loss by a user's latent has (p - y) of the user and of its neighbours in it,
    times the server's weights. Its direction is that of a class. The colluders whose labels they
    know teach a ridge classifier, round by round, and the scores of all rounds are added.
    """
    rounds = by_round(view.downloads(LATENTS))
    if not rounds:
        raise CannotAttack("no gradient was sent to the colluders")
    taught = one_hot(question.known_labels, question.num_classes)
    scores = np.zeros((len(question.ids), question.num_classes))
    for rows in list(rounds.values())[:ROUNDS]:
        known, wanted = (directions(rows, ids) for ids in (question.known_ids, question.ids))
        scores += ridge_decoded(*_beside(known, taught, wanted))
    found: Array = scores.argmax(1).astype(np.float64)
    return found


def directions(rows: Rows, ids: np.ndarray) -> Array:
    """Return the gradients of these users, each of length one. Lengths tell of degrees alone."""
    own = rows.rows_of(ids)
    found: Array = own / np.maximum(np.linalg.norm(own, axis=1, keepdims=True), 1e-300)
    return found


def _beside(known: Array, taught: Array, wanted: Array) -> tuple[Array, Array, Array]:
    first, second = standardised(known, wanted)
    return first, taught, second


DOWNLOADED_LABELS = Attack(
    name="downloaded_labels",
    summary="the labels that the server has on record for colluding users, from their gradients",
    source="derived here; iDLG, Zhao et al. 2020, for labels in gradients",
    needs=(),
    hears=(LATENTS,),
    assumes="the gradients sent to twenty or more colluders, a third of whom know their label",
    adversaries=frozenset({"client"}),
    question=OwnLabels,
    floor=0.1,
    expected="0.91 to 0.96 on Cora without a smoothness term, 0.4 with weight 1, none at 100",
    exposes="the label of a person as the server has it on record",
    stopped_by="noise on the latents does not; a smoothness term in part, as it covers the rest",
    run=downloaded_labels,
    rounds=ROUNDS,
)

ATTACKS = (DOWNLOADED_LABELS,)
