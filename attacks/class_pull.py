"""How far each client's training pulls the output layer towards each class.

A step moves the weights into class c by sum_i (y_ic - p_ic) h_i, and rectified h are not negative:
a client with more of a class than others pulls its column further up (Zhao et al. 2020).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack, View
from attacks.client_models import MODEL, layout_of, sent_models
from securefg.protocol.meanings import Weights


def pulls(view: View) -> dict[int, Array]:
    """By client: (classes,), over rounds; in every round in units of the spread over clients, above
    their mean. Where uploads were masked, everybody's is the same."""
    layout, sent = layout_of(view), sent_models(view)
    if layout.output is None:
        raise CannotAttack("which of the weights lead to classes is not known")
    rounds: dict[int, dict[int, Array]] = {}
    for message in view.best_rows(MODEL):
        meaning, rows = message.meaning, message.value.flatten(1).double()
        if isinstance(meaning, Weights) and not meaning.change:
            if message.round not in sent:
                raise CannotAttack(f"the weights sent in round {message.round} are not in the view")
            rows = rows - sent[message.round].double()
        moved = layout.part(rows, layout.output).mean(-2).numpy()
        of_round = rounds.setdefault(message.round, {})
        of_round |= dict(zip(message.clients.numbers(), moved, strict=True))
    found: dict[int, Array] = {}
    for of_round in rounds.values():
        scale = np.stack(list(of_round.values()))
        middle, spread = scale.mean(0), scale.std(0) + 1e-30
        for client, moved in of_round.items():
            found[client] = found.get(client, np.zeros_like(moved)) + (moved - middle) / spread
    return found


def scores(view: View, ids: NDArray[np.int64], rng: np.random.Generator) -> Array:
    """Of pairs k C + c; a client that uploaded nothing is taken for an average one, ties are broken
    at random."""
    found, classes = pulls(view), view.public.num_classes
    nothing = np.zeros(classes)
    scored = np.array([found.get(int(i) // classes, nothing)[int(i) % classes] for i in ids])
    return scored + 1e-9 * rng.normal(size=len(ids))


def has_an_output(view: View) -> str | None:
    """For `applies_to`."""
    known = layout_of(view).output is not None
    return None if known else "which of the weights lead to classes is not known"
