"""One client's uploads round by round, and what several attacks do with rows."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attacks.base import Array, CannotAttack, Message, Need, Noise, View, not_seen, options
from securefg.protocol.meanings import Holdings, NodeRows, Predictions

GRID = 1e-2
"""Sums under masks are rounded: to add up they need no more than this."""


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


def class_shares(view: View, client: int) -> dict[int, Tensor]:
    """A client's predictions by round, or the mean of all. Where the last class was left out, it
    has what the others leave of a row: of 1, or in a mean of the weight of those who hold the
    node, which was counted over all clients: rounds of all are completed, and others are left out
    then. A row of zeros tells nothing."""
    messages = found_rows(view, Predictions("nodes"))
    rounds = client_rounds(view, client, Predictions("nodes"))
    if all(rows.shape[1] == view.public.num_classes for rows in rounds.values()):
        return rounds
    asked = {m.round: len(m.clients) for m in messages if m.summed}
    weights = [
        (m.value.reshape(-1, 1) / len(m.clients), len(m.clients)) for m in view.all_sums(Holdings())
    ]
    completed = {}
    for number, rows in rounds.items():
        told = rows.sum(1, keepdim=True)
        whole = [w for w, counted in weights if counted == asked.get(number)]
        if number not in asked:
            whole = [torch.ones_like(told)]
        fitting = [w for w in whole if w.shape == told.shape and bool((told <= w + GRID).all())]
        if fitting:
            weight = min(fitting, key=lambda w: float(w.sum()))
            last = torch.where(told > 0, weight - told, 0.0).clamp_min(0)
            completed[number] = torch.cat([rows, last], 1)
    if not completed and view.public.num_classes == 2:
        raise CannotAttack("one class by itself says nothing of the other")
    return completed or rounds


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
