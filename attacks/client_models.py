"""The models that clients were sent and sent back, whatever network it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attacks.base import CannotAttack, Message, View
from attacks.client_rows import client_rounds
from securefg.protocol.meanings import Layout, Weights

MODEL = Weights()


@dataclass(frozen=True)
class Trained:
    """The model a client was sent in a round, and the one it uploaded."""

    received: Tensor
    uploaded: Tensor

    @property
    def change(self) -> Tensor:
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


def _are_changes(uploads: list[Message]) -> bool:
    meaning = uploads[0].meaning
    return isinstance(meaning, Weights) and bool(meaning.change)


def of_form(form: str) -> Callable[[View], str | None]:
    """For `applies_to`: None where the uploaded network is of this form."""

    def reason(view: View) -> str | None:
        found = layout_of(view).form
        return None if found == form else f"the equations are of form {form}, the network {found}"

    return reason
