"""What attacks on a foreign exchange read: how every client's upload changed the first layer."""

from __future__ import annotations

from collections.abc import Iterator

from attacks.base import Array, CannotAttack, View


def first_layers(view: View) -> Iterator[tuple[int, int, Array, Array]]:
    """(round, client, change of W (outputs, inputs), change of b), in the order of recording.

    Where uploads were masked, everybody's is the mean of the sum.
    """
    exchange = view.settings
    upload = exchange.upload
    for message in view.best_rows(upload.kind, upload.field):
        before = _sent(view, message.round) if upload.holds == "weights" else 0.0
        rows = message.value.flatten(1).double().numpy()
        if rows.shape[1] != exchange.width:
            raise CannotAttack(f"{upload.kind} has {rows.shape[1]} numbers, not {exchange.width}")
        for client, row in zip(message.clients.numbers(), rows, strict=True):
            weight, bias = exchange.first(row - before)
            yield message.round, client, weight, bias


def _sent(view: View, number: int) -> Array:
    place = view.settings.sent
    found = [m.value for m in view.downloads(place.kind, place.field) if m.round == number]
    if not found:
        raise CannotAttack(f"the weights sent in round {number} are not in the view")
    weights: Array = found[0].flatten().double().numpy()
    return weights
