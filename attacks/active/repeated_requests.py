"""Repeated requests: the same round asked again and again, so that fresh noise averages out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attacks.active.base import ActiveAttack, Request, Told
from attacks.base import Array, CannotAttack, View
from attacks.latents import LATENT, first_weights, needs_shared_start
from attacks.questions import Identify

TIMES = 200


def lie(
    view: View, question: Identify, request: Request, rng: np.random.Generator
) -> Sequence[Told]:
    return [Told()] * TIMES if request.asks_for(LATENT) and request.round == 1 else ()


def run(view: View, question: Identify, rng: np.random.Generator) -> Array:
    """The candidate whose latent points most like the mean of all that the user sent: clipping
    shortens a latent and does not turn it."""
    from scipy.spatial.distance import cdist  # loaded where it is used

    total: dict[int, Array] = {}
    for message in view.readable(LATENT):
        if message.round == 1:
            rows = message.value.flatten(1).double().numpy()
            for client, row in zip(message.clients.numbers(), rows, strict=True):
                total[client] = total.get(client, 0.0) + row
    if missing := [k for k in question.ids.tolist() if k not in total]:
        raise CannotAttack(f"client {missing[0]} uploaded nothing in round 1")
    sent = np.stack([total[k] for k in question.ids.tolist()])
    made = question.candidates @ first_weights(view).double().numpy()
    distance = cdist(_unit(sent), _unit(made))
    found: Array = distance.argmin(1).astype(np.float64)
    return found


def _unit(rows: Array) -> Array:
    found: Array = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return found


ATTACK = ActiveAttack(
    name="repeated_requests",
    summary=f"which candidate row is a user's, from {TIMES} answers to one request",
    source="averaging n answers divides the noise by the root of n",
    needs=(LATENT,),
    assumes=f"a server that asks a round {TIMES} times; the shared W_0; a list of candidates",
    adversaries=frozenset({"server"}),
    question=Identify,
    floor=0.1,
    expected="under noise, what one answer gives at a noise fourteen times smaller",
    exposes="which person of a known list a pseudonymous user is, although every answer had noise",
    stopped_by="a privacy budget that clients hold (privacy.budget, a site's budgets)",
    noticed="many requests of one round; every one is in the client's ledger with its epsilon",
    lie=lie,
    run=run,
    rounds=1,
    applies_to=needs_shared_start,
)
