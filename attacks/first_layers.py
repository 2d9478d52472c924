"""How uploads change the layers that read features, whatever the network."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from attacks.base import Array, CannotAttack, View
from attacks.client_models import MODEL, layout_of, sent_models
from securefg.protocol.meanings import Weights


def first_layers(view: View) -> Iterator[tuple[int, int, Array, Array]]:
    """(round, client, change of W (outputs, inputs), change of b), in the order of recording.

    Several matrices that read features are put one under the other; the bias is empty where there
    is none. Where uploads were masked, everybody's is the mean of the sum.
    """
    layout, sent = layout_of(view), sent_models(view)
    if not layout.inputs:
        raise CannotAttack("which of the weights multiply features is not known")
    for message in view.best_rows(MODEL):
        meaning = message.meaning
        assert isinstance(meaning, Weights)
        rows = message.value.flatten(1).double()
        if rows.shape[1] != layout.size:
            raise CannotAttack(f"an upload has {rows.shape[1]} numbers, not {layout.size}")
        if not meaning.change:
            if message.round not in sent:
                raise CannotAttack(f"the weights sent in round {message.round} are not in the view")
            rows = rows - sent[message.round].double()
        weight = torch.cat([layout.part(rows, matrix) for matrix in layout.inputs], -1).mT
        names = [matrix.bias for matrix in layout.inputs if matrix.bias is not None]
        whole = len(names) == len(layout.inputs)
        bias = [layout.layer(rows, name) for name in names] if whole else []
        bias_rows = torch.cat(bias, -1).numpy() if bias else np.zeros((len(rows), 0))
        for k, client in enumerate(message.clients.numbers()):
            yield message.round, client, weight[k].numpy(), bias_rows[k]


def sent_first_layers(view: View, number: int) -> Array | None:
    """What a round's changes started from, (outputs, inputs); None where it is not in the view."""
    layout, sent = layout_of(view), sent_models(view)
    if number not in sent:
        return None
    parts = [layout.part(sent[number].double(), matrix).mT for matrix in layout.inputs]
    found: Array = torch.cat(parts).numpy()
    return found


def without_decay(view: View, number: int, change: Array) -> Array:
    """The change of the first layers, without what weight decay made of the model that was sent:
    under plain gradient descent exactly; any other change as it is."""
    recipe, start = view.training, sent_first_layers(view, number)
    if layout_of(view).optimizer != "sgd" or recipe is None or start is None:
        return change
    left = (1 - recipe.lr * recipe.weight_decay) ** recipe.local_epochs
    found: Array = change + (1 - left) * start
    return found


def decay_cannot_be_followed(view: View) -> str | None:
    """For `applies_to`: where it can, another attack takes the decay off first."""
    layout = layout_of(view)
    if not layout.inputs:
        return "which of the weights multiply features is not known"
    return (
        "Adam's decay moves every row: `vocabulary` follows it"
        if layout.optimizer == "adam"
        else None
    )
