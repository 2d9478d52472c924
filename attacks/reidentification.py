"""N3: which of many candidate rows is this user's? The one whose latent lies nearest.

Whoever holds a list of candidates (a leaked table, a census of documents) multiplies each by the
known first weights and compares with the user's first latent.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, View
from attacks.client_rows import noise_of
from attacks.latents import (
    LATENT,
    clip_factors,
    first_latents,
    first_weights,
    needs_shared_start,
)
from attacks.questions import Identify


def run(view: View, question: Identify, rng: np.random.Generator) -> Array:
    from scipy.spatial.distance import cdist  # loaded where it is used

    weights = first_weights(view).double().numpy()
    made = question.candidates @ weights
    made *= clip_factors(made, noise_of(view, LATENT))[:, None]
    distance = cdist(first_latents(view).of(question.ids), made)
    found: Array = distance.argmin(1).astype(np.float64)
    return found


ATTACK = Attack(
    name="reidentification",
    summary="which of all candidate rows is a user's, from its first latent",
    source="N3: argmin_c |x_c W_0 - z_0|",
    needs=(LATENT,),
    assumes="the latents of round 1; the shared W_0; a list of candidates with the user in it",
    adversaries=frozenset({"server"}),
    question=Identify,
    floor=0.1,
    expected="near 100 % among 2708 at q = 16",
    exposes="which person of a known list a pseudonymous user is",
    stopped_by="noise on the latents; first weights that are not shared; fewer numbers do not",
    run=run,
    rounds=1,
    applies_to=needs_shared_start,
)
