"""What PPFL-GNN's clients upload of the public nodes, round by round, as an adversary reads it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack, View

METHODS = frozenset({"ppfl_deepwalk", "ppfl_gat"})
OPEN, SUMMED = "public_rows.Rows", "public_rows.RotatedRows"


def upload_kind(view: View) -> str:
    return OPEN if view.settings.alignment == "pairwise" else SUMMED


def dim_of(view: View) -> int:
    """Columns that are an embedding; further ones are skip-gram's contexts."""
    found = getattr(view.settings, "dim", None) or getattr(view.settings, "hidden", None)
    assert isinstance(found, int)
    return found


def rows_by_round(view: View, client: int) -> dict[int, Array]:
    """A client's rows, (public nodes, dim); under masks the mean of all clients' instead."""
    found = {}
    for message in view.best_rows(upload_kind(view), "rows"):
        numbers = message.clients.numbers()
        if client in numbers:
            rows = message.value[numbers.index(client)][:, : dim_of(view)]
            found[message.round] = rows.double().numpy()
    if not found:
        raise CannotAttack(f"no rows of client {client} are in the view")
    return found


def cosines(rows: Array, pairs: NDArray[np.int64]) -> Array:
    """Of the two rows of every pair."""
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    found: Array = np.einsum("nd,nd->n", unit[pairs[:, 0]], unit[pairs[:, 1]])
    return found


def exchanges(settings: object) -> str | None:
    return None if getattr(settings, "exchange", True) else "nothing is exchanged"
