"""One FedGL client's uploads, round by round, as an adversary reads them off its view."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from attacks.base import CannotAttack, View
from securefg.models.gcn import GcnShape

UPLOAD, SENT = "fedgl.Update", "fedgl.Globals"


@dataclass(frozen=True)
class Trained:
    """The model a client was sent in a round, and the one it uploaded."""

    received: Tensor
    uploaded: Tensor


def shape_of(view: View) -> GcnShape:
    return GcnShape(view.public.num_features, view.settings.hidden, view.public.num_classes)


def client_field(view: View, client: int, name: str) -> dict[int, Tensor]:
    """What this client uploaded in a field, by round; the mean of all where it was masked."""
    found = {}
    for message in view.best_rows(UPLOAD, name):
        numbers = message.clients.numbers()
        if client in numbers:
            found[message.round] = message.value[numbers.index(client)].float()
    return found


def client_models(view: View, client: int) -> dict[int, Trained]:
    """Both models of every round in which both can be read."""
    received = {message.round: message.value for message in view.downloads(SENT, "weights")}
    uploaded = client_field(view, client, "weights")
    rounds = sorted(received.keys() & uploaded.keys())
    if not rounds:
        raise CannotAttack(f"no round in which the model of client {client} can be read")
    change = view.settings.upload == "update"
    return {
        t: Trained(received[t], uploaded[t] + received[t] if change else uploaded[t])
        for t in rounds
    }
