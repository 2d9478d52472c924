"""Which inputs are not zero in all of a client's samples, in a foreign exchange?

Scored client by client: clients with many samples use more inputs than others, and an AUC over all
of them together would pay for knowing who is large.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack
from attacks.questions import ClientInputs
from audits.foreign import ForeignTruth
from audits.games.base import OutcomeGame, choose, plays
from audits.metrics import auc
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

MANY_CLIENTS = 100


@plays(ClientInputs)
def make(
    truth: Truth | ForeignTruth, adversary: Adversary, rng: np.random.Generator
) -> OutcomeGame:
    """Prior: the share of the other clients' samples that use the input; nothing, where that is
    below chance on these clients."""
    known = {k: rows != 0 for k, rows in truth.samples.items() if len(rows)}
    mixed = [k for k, rows in known.items() if rows.any() and not rows.any(0).all()]
    clients = np.array(sorted(set(mixed) - adversary.clients), np.int64)
    if not len(clients):
        raise CannotAttack("every client uses all of the inputs, or none: nothing to guess")
    wanted = choose(clients, MANY_CLIENTS, rng)
    used = np.stack([known[int(k)].any(0) for k in wanted])
    others = [np.concatenate([r for k, r in known.items() if k != own]) for own in wanted]
    prior = np.stack([rows.mean(0) for rows in others])
    if inputs_found(prior, used).mean() < 0.5:
        prior = np.zeros(used.shape)
    return OutcomeGame(
        question=ClientInputs(ids=wanted),
        metric="AUC over a client's inputs, mean of clients",
        unit="input of a client",
        truth=used,
        outcome=inputs_found,
        prior_guess=prior,
    )


def inputs_found(guess: Array, truth: NDArray[np.bool_]) -> Array:
    return np.array([auc(used, scores) for scores, used in zip(guess, truth, strict=True)])
