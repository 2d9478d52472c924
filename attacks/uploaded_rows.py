"""The rows that clients upload about nodes, whatever the method calls them, over the global index.

Where one client holds one node client k's upload is the row of node k; where a
client holds many, its upload has a row for every node of the index or of the public ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack, Message, View
from attacks.client_rows import found_rows
from attacks.questions import RowsQuestion
from securefg.protocol.meanings import NodeRows, Predictions

FEWEST = 10
"""Known nodes from which a decoder can learn anything."""


@dataclass(frozen=True)
class Rows:
    """values[i] is what was uploaded about node ids[i], rounds side by side."""

    ids: NDArray[np.int64]
    values: Array

    def of(self, wanted: NDArray[np.int64]) -> Array:
        """The rows of these nodes; a node about which nothing was uploaded has the mean row."""
        order = np.argsort(self.ids)
        place = np.searchsorted(self.ids[order], wanted).clip(max=len(order) - 1)
        found: Array = self.values[order[place]]
        missing = self.ids[order[place]] != wanted
        found[missing] = self.values.mean(0)
        return found


ROWS = (NodeRows(index="client"), NodeRows(index="nodes"), Predictions("nodes"))
"""What decoders read: rows about the client itself, or about every node that it holds."""


def uploaded_rows(view: View, client: int | None, rounds: int = 1) -> Rows:
    """The rows of the first readable rounds."""
    found = found_rows(view, ROWS)
    if found[0].meaning.fits(NodeRows(index="client")):
        return _one_node(found, rounds)
    if client is None:
        raise CannotAttack("no client was named whose rows are attacked")
    return _of_client(found, client, rounds)


@dataclass(frozen=True)
class Pairs:
    """Uploads of known nodes, to learn from, and of those to decode.

    rest   of the known nodes' features, what the prior does not say of them
    prior  what it says of the wanted ones
    """

    known: Array
    rest: Array
    wanted: Array
    prior: Array


def decoder_pairs(view: View, question: RowsQuestion, rounds: int) -> Pairs:
    """Uploads standardised by the known nodes; features over what the prior says of each."""
    if len(question.known_ids) < FEWEST:
        raise CannotAttack(f"fewer than {FEWEST} nodes with known features")
    rows = uploaded_rows(view, question.client, rounds)
    known, wanted = rows.of(question.known_ids), rows.of(question.ids)
    mean, spread = known.mean(0), known.std(0) + 1e-12
    features = question.known.astype(np.float64)
    kept = features.mean(0) if question.known_prior is None else question.known_prior
    prior = question.prior if question.prior is not None else np.tile(kept, (len(wanted), 1))
    return Pairs((known - mean) / spread, features - kept, (wanted - mean) / spread, prior)


def by_round(found: list[Message]) -> dict[int, Rows]:
    """Rows of clients that are nodes, by round."""
    rounds = {}
    for number in sorted({message.round for message in found}):
        own = [message for message in found if message.round == number]
        ids = np.concatenate([m.clients.numbers() for m in own]).astype(np.int64)
        values: Array = np.concatenate([m.value.flatten(1).double().numpy() for m in own])
        rounds[number] = Rows(ids, values)
    return rounds


def _one_node(found: list[Message], rounds: int) -> Rows:
    parts = list(by_round(found).values())[:rounds]
    ids = parts[0].ids
    return Rows(ids, np.concatenate([part.of(ids) for part in parts], 1))


def _of_client(found: list[Message], client: int, rounds: int) -> Rows:
    mine = [m for m in found if client in m.clients.numbers()][:rounds]
    if not mine:
        raise CannotAttack(f"client {client} uploaded nothing that the view shows")
    rows = [m.value[m.clients.numbers().index(client)].double().numpy() for m in mine]
    held = np.flatnonzero(np.abs(rows[0]).sum(1))
    return Rows(held, np.concatenate([row[held] for row in rows], 1))
