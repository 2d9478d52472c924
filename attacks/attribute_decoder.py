"""Attribute inference: ridge regression from what is seen of a node to a number of its record."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import RidgeCV

from attacks.base import Array, CannotAttack, Targets
from attacks.uploaded_rows import FEWEST


def decoded(known: Array, targets: Targets, wanted: Array, rng: np.random.Generator) -> Array:
    """Scores of the targets, learnt from the nodes whose number is known."""
    if targets.known is None or len(targets.known_ids) < FEWEST:
        raise CannotAttack(f"fewer than {FEWEST} nodes whose number is known")
    decoder = RidgeCV(alphas=(0.1, 1.0, 10.0, 100.0, 1000.0))
    decoder.fit(known, targets.known[:, 0])
    found: Array = np.asarray(decoder.predict(wanted), np.float64)
    return found + 1e-9 * rng.normal(size=len(found))
