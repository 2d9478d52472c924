"""The models that clients were sent and sent back, whatever network it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attacks.base import CannotAttack, Message, Noise, View
from attacks.client_rows import client_rounds
from securefg.models.optimizers import Adam
from securefg.protocol.meanings import Holdings, Layout, NodeRows, Predictions, Weights

MODEL = Weights()
FAR = 10.0
LATEST = 30
"""Rounds after the first in which members still pull; later, a model has learnt them."""


@dataclass(frozen=True)
class Trained:
    """The model a client was sent in a round, and the one it uploaded."""

    received: Tensor
    uploaded: Tensor

    @property
    def moved(self) -> Tensor:
        return self.uploaded - self.received


def layout_of(view: View) -> Layout:
    """Of the network whose weights are uploaded."""
    for place in view.places(MODEL):
        meaning = view.meanings[place]
        if isinstance(meaning, Weights):
            return view.network(meaning.of)
    raise CannotAttack("no network's weights cross")


def sent_models(view: View) -> dict[int, Tensor]:
    """What training started from, by round."""
    return {m.round: m.value.flatten() for m in view.downloads(Weights(change=False))}


def client_models(view: View, client: int) -> dict[int, Trained]:
    """Both models of every round in which both can be read."""
    received, uploaded = sent_models(view), client_rounds(view, client, MODEL)
    rounds = sorted(received.keys() & uploaded.keys())
    if not rounds:
        raise CannotAttack(f"no round in which the model of client {client} can be read")
    changes = _are_changes(view.best_rows(MODEL))
    return {
        t: Trained(
            received[t], uploaded[t].float() + received[t] if changes else uploaded[t].float()
        )
        for t in rounds
    }


def first_changes(view: View, wanted: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """The model that was sent in the first recorded round, and how each client changed it."""
    uploads = view.best_rows(MODEL)
    number = uploads[0].round
    sent = sent_models(view).get(number)
    if sent is None:
        raise CannotAttack(f"the model sent in round {number} is not in the view")
    start = sent.double()
    before = torch.zeros_like(start) if _are_changes(uploads) else start
    found: dict[int, Tensor] = {}
    for message in uploads:
        if message.round == number:
            rows = message.value.flatten(1).double() - before
            found |= dict(zip(message.clients.numbers(), rows, strict=True))
    if missing := [k for k in wanted.tolist() if k not in found]:
        raise CannotAttack(f"client {missing[0]} uploaded no model in round {number}")
    return start, torch.stack([found[k] for k in wanted.tolist()])


@dataclass(frozen=True)
class Change:
    """What a client, or the mean of several, made of the model that was sent in a round.

    moved   by how much; of a sum that is weighted by sizes, up to its scale
    summed  it is the mean of all clients
    """

    received: Tensor
    moved: Tensor
    noise: Noise | None = None
    summed: bool = False


def changes_of_clients(view: View, rounds: int) -> list[tuple[int | None, list[Change]]]:
    """Every client's changes of so many rounds, the first that can be read and others spread over
    the `LATEST` first; None for all clients' mean."""
    sent, found = sent_models(view), dict[int | None, list[Change]]()
    uploads = [message for message in view.best_rows(MODEL) if message.round in sent]
    early = sorted({m.round for m in uploads if m.round <= uploads[0].round + LATEST})
    chosen = {early[int(i)] for i in np.linspace(0, len(early) - 1, rounds)} if early else set()
    for message in uploads:
        received, changed = sent[message.round], _are_changes([message])
        if message.round not in chosen:
            continue
        whose: list[int | None] = [None] if message.summed else [*message.clients.numbers()]
        for client, row in zip(whose, message.value, strict=False):
            value = row.flatten().to(received.dtype)
            moved = value if changed else value - received
            if message.summed and moved.norm() > FAR * received.norm():
                moved = value  # changes times clients' sizes: no model lies as far from its start
            change = Change(received, moved, message.noise, message.summed)
            found.setdefault(client, []).append(change)
    if not found:
        raise CannotAttack("no round in which a model and what it was made from can be read")
    return list(found.items())


def held_nodes(view: View, client: int | None) -> Tensor:
    """The nodes that a client uploads rows about; all nodes where that cannot be read."""
    everything = torch.arange(view.public.num_nodes)
    if client is None:
        return everything
    for need in (Holdings(degrees=False), NodeRows(index="nodes"), Predictions("nodes")):
        for message in view.uploads(need):
            row = None if message.masked or message.noise else message.of(client)
            if row is not None and row.dim() == 2 and len(row) == len(everything):
                return row.abs().sum(1).nonzero().flatten()
    return everything


def off_the_path(view: View, change: Change | Trained) -> Tensor | None:
    """How far every weight of the first layers, (inputs, outputs), ended from where decay alone
    would have led it; None where that cannot be followed."""
    layout, training = layout_of(view), view.recipe
    if not layout.inputs or layout.optimizer != "adam":
        return None
    first = torch.cat([layout.part(change.received, m) for m in layout.inputs], 1)
    path = first.clone()
    adam = Adam([path], [training.weight_decay], training.lr)
    for _ in range(training.local_epochs):
        adam.step([torch.zeros_like(path)])
    moved = torch.cat([layout.part(change.moved, m) for m in layout.inputs], 1)
    return first + moved - path


def _are_changes(uploads: list[Message]) -> bool:
    meaning = uploads[0].meaning
    return isinstance(meaning, Weights) and bool(meaning.change)


def of_form(form: str) -> Callable[[View], str | None]:
    """For `applies_to`: None where the uploaded network is of this form."""

    def reason(view: View) -> str | None:
        found = layout_of(view).form
        return None if found == form else f"the equations are of form {form}, the network {found}"

    return reason
