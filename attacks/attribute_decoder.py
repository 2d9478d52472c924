"""Attribute inference: ridge regression from what is seen of a node to a number of its record."""

from __future__ import annotations

import numpy as np

from attacks.base import Array, CannotAttack
from attacks.linear_decoder import ridge_decoded
from attacks.questions import KnownRowsQuestion
from attacks.uploaded_rows import FEWEST


def decoded(
    known: Array, question: KnownRowsQuestion, wanted: Array, rng: np.random.Generator
) -> Array:
    """Scores of the targets, learnt from the nodes whose number is known."""
    if len(question.known_ids) < FEWEST:
        raise CannotAttack(f"fewer than {FEWEST} nodes whose number is known")
    numbers = question.known[:, :1].astype(np.float64)
    found: Array = ridge_decoded(known, numbers, wanted)[:, 0]
    return found + 1e-9 * rng.normal(size=len(found))
