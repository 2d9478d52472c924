"""The rows that clients upload about nodes, and arithmetic on rows that several attacks share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attacks.base import Array, CannotAttack, Message, Need, Noise, View, list_options, not_seen
from securefg.protocol.meanings import Holdings, NodeRows, Predictions

GRID = 1e-2
"""Sums under masks are rounded: to add up they need no more than this."""


def found_rows(view: View, need: Need) -> list[Message]:
    """Return the best rows of the first of these meanings that was sent."""
    for option in list_options(need):
        if view.uploads(option) or view.sums(option):
            return view.best_rows(option)
    raise not_seen(need)


def client_rounds(view: View, client: int, need: Need) -> dict[int, Tensor]:
    """Return the rows of one client by round, or the mean of all clients where rows were masked."""
    rows_by_round = {}
    for message in found_rows(view, need):  # a round has a message from every host
        row = message.row_of_client(client)
        if row is not None:
            rows_by_round[message.round] = row
    if not rows_by_round:
        raise CannotAttack(f"client {client} uploaded nothing that the view shows")
    return rows_by_round


def list_uploaders(view: View, client: int, need: NodeRows) -> list[int]:
    """Return the clients whose rows can be read, or one for all where only a sum can."""
    readable = [message for message in view.uploads(need) if not message.masked]
    return sorted({k for message in readable for k in message.clients.numbers()}) or [client]


def class_shares(view: View, client: int) -> dict[int, Tensor]:
    """Return a client's predictions by round, or the mean of all clients where they were masked.

    The last class may have been left out. Its share is then what the others leave of a row: of 1,
    or in a mean of the weight of those who hold the node, which was counted over all clients.
    Rounds of all clients are completed, and other rounds are then left out. A row of zeros tells
    nothing.
    """
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
        prediction_sums = rows.sum(1, keepdim=True)
        whole = [w for w, counted in weights if counted == asked.get(number)]
        if number not in asked:
            whole = [torch.ones_like(prediction_sums)]
        fitting = [
            w
            for w in whole
            if w.shape == prediction_sums.shape and bool((prediction_sums <= w + GRID).all())
        ]
        if fitting:
            weight = min(fitting, key=lambda w: float(w.sum()))
            last = torch.where(prediction_sums > 0, weight - prediction_sums, 0.0).clamp_min(0)
            completed[number] = torch.cat([rows, last], 1)
    if not completed and view.public.num_classes == 2:
        raise CannotAttack("one class by itself says nothing of the other")
    return completed or rounds


def noise_of(view: View, need: Need) -> Noise | None:
    """Return the noise that these rows have, or None."""
    return found_rows(view, need)[0].noise


def embedding_rows(view: View, client: int, need: NodeRows) -> dict[int, Array]:
    """Return a client's rows by round, without columns that are no embedding."""
    columns = next(iter(found_rows(view, need))).meaning
    width = columns.columns if isinstance(columns, NodeRows) else None
    rounds = client_rounds(view, client, need)
    return {number: rows[:, :width].double().numpy() for number, rows in rounds.items()}


def pair_cosines(rows: Array, pairs: NDArray[np.int64]) -> Array:
    """Return the cosine of the two rows of every pair."""
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    found: Array = np.einsum("nd,nd->n", unit[pairs[:, 0]], unit[pairs[:, 1]])
    return found


NNLS_PATIENCE = 8
"""Steps per equation. Sparse rows of consistent equations take fewer; noise makes them many."""


def non_negative(design: Array, right: Array, patience: int = NNLS_PATIENCE) -> Array:
    """Return argmin_x>=0 |design x - right|, always and in bounded time.

    If the search wanders, return the positive part of the minimum-norm solution, which ranks
    entries as well as noise allows.
    """
    from scipy.optimize import nnls  # a third of a second that other attacks need not pay

    try:
        found: Array = nnls(design, right, maxiter=max(1, patience * len(right)))[0]
    except RuntimeError:
        found = np.maximum(np.linalg.lstsq(design, right, rcond=1e-3)[0], 0)
    return found


@dataclass(frozen=True)
class Rows:
    """A set of rows of nodes: values[i] was uploaded about node ids[i], rounds side by side."""

    ids: NDArray[np.int64]
    values: Array

    def rows_of(self, wanted: NDArray[np.int64]) -> Array:
        """Return the rows of these nodes. A node about which nothing was uploaded has the mean
        row."""
        order = np.argsort(self.ids)
        place = np.searchsorted(self.ids[order], wanted).clip(max=len(order) - 1)
        found: Array = self.values[order[place]]
        missing = self.ids[order[place]] != wanted
        found[missing] = self.values.mean(0)
        return found


def by_round(row_messages: list[Message]) -> dict[int, Rows]:
    """Return the rows of clients that are single nodes, by round."""
    rounds = {}
    for number in sorted({message.round for message in row_messages}):
        own = [message for message in row_messages if message.round == number]
        ids = np.concatenate([m.clients.numbers() for m in own]).astype(np.int64)
        values: Array = np.concatenate([m.value.flatten(1).double().numpy() for m in own])
        rounds[number] = Rows(ids, values)
    return rounds


def is_words(known: Array) -> bool:
    """Return whether most entries are zero and none is negative."""
    return bool(known.min() >= 0 and (known == 0).mean() > 0.5)
