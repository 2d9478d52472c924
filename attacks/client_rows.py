"""One client's uploads round by round, and what several attacks do with rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from attacks.base import Array, CannotAttack, Message, Need, Noise, View, not_seen, options
from securefg.protocol.meanings import NodeRows


def found_rows(view: View, need: Need) -> list[Message]:
    """The best rows of the first of these meanings that was sent."""
    for option in options(need):
        if view.uploads(option) or view.sums(option):
            return view.best_rows(option)
    raise not_seen(need)


def client_rounds(view: View, client: int, need: Need) -> dict[int, Tensor]:
    """What this client uploaded, by round; the mean of all where it was masked."""
    found = {}
    for message in found_rows(view, need):  # a round has a message from every host
        row = message.of(client)
        if row is not None:
            found[message.round] = row
    if not found:
        raise CannotAttack(f"client {client} uploaded nothing that the view shows")
    return found


def noise_of(view: View, need: Need) -> Noise | None:
    """What noise these rows have."""
    return found_rows(view, need)[0].noise


def embeddings(view: View, client: int, need: NodeRows) -> dict[int, Array]:
    """A client's rows by round, without columns that are no embedding."""
    columns = next(iter(found_rows(view, need))).meaning
    width = columns.columns if isinstance(columns, NodeRows) else None
    rounds = client_rounds(view, client, need)
    return {number: rows[:, :width].double().numpy() for number, rows in rounds.items()}


def cosines(rows: Array, pairs: NDArray[np.int64]) -> Array:
    """Of the two rows of every pair."""
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    found: Array = np.einsum("nd,nd->n", unit[pairs[:, 0]], unit[pairs[:, 1]])
    return found
