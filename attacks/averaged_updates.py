"""N5: users of one node upload their whole weights, and the rows that moved are their words.

A word that a user does not have gets no gradient: its row of W_i moves by weight decay alone, along
a path that the server computes from the weights it sent. One user's update is x^T g, rank one.
"""

from __future__ import annotations

import numpy as np
import torch

from attacks.base import Array, Attack, CannotAttack, View
from attacks.client_models import MODEL
from attacks.latents import LATENT, first_weights, needs_shared_start
from attacks.questions import NodeFeatures
from attacks.uploaded_rows import Rows
from securefg.models.optimizers import Adam

STILL = 1e-9
"""Far below a step that a gradient makes, and above nothing."""


def run(view: View, question: NodeFeatures, rng: np.random.Generator) -> Array:
    found = [m for m in view.best_rows(MODEL) if m.round == 1]
    if not found:
        raise CannotAttack("the weights of round 1 are not in the view")
    start = first_weights(view).clone()
    Adam([start], [view.recipe.weight_decay], view.recipe.lr).step([torch.zeros_like(start)])
    ids = np.concatenate([m.clients.numbers() for m in found]).astype(np.int64)
    moved = torch.cat([(m.value.reshape(-1, *start.shape) - start).abs().amax(2) for m in found])
    moves: Array = Rows(ids, moved.double().numpy()).of(question.ids)
    if question.prior is None:
        return moves
    # Whom no gradient reached moved by decay alone: the prior is left, below whatever moved.
    return moves + STILL * question.prior


ATTACK = Attack(
    name="averaged_updates",
    summary="a user's words, from the rows of its uploaded weights that moved",
    source="N5: dL/dW_i = x_i^T g",
    needs=(LATENT, MODEL),
    assumes="the weights that users upload, and those they were sent",
    adversaries=frozenset({"server"}),
    question=NodeFeatures,
    floor=0.1,
    expected="exact for users whom a gradient reaches: within two hops of a label",
    exposes="the words of one user's own record",
    stopped_by="noise on the uploaded weights; masks, so that only the mean of all users is seen",
    run=run,
    rounds=1,
    applies_to=needs_shared_start,
)
