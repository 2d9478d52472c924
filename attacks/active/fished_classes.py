"""Gradient fishing by class: weights under which only a class's own labels move its column.

Half of the units get weights so negative that the probabilities of all classes but one are zero in
floating point; the other half get none, so that nothing decays there. Then sum_i (y_ic - p_ic) h_i
has no p left: column c moves if the client has a label of class c, and not by a bit if it has none,
whatever the optimizer and however many steps. The class that was spared is fished in another round.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from attacks.active.base import ActiveAttack, Request, Told
from attacks.base import Array, CannotAttack, View
from attacks.labels import has_an_output
from attacks.models import MODEL, layout_of, sent_models
from attacks.questions import ClientClasses
from securefg.protocol.meanings import Weights

SURE, LARGE = 100.0, 1e4
"""Of output and first weights: what training moves them by is small beside either."""


def lie(
    view: View, question: ClientClasses, request: Request, rng: np.random.Generator
) -> Sequence[Told]:
    name = request.named(Weights(change=False))
    if name is None or not request.asks_for(MODEL):
        return ()
    sent = request.values[name]
    assert isinstance(sent, torch.Tensor)
    layout = layout_of(view)
    assert layout.output is not None
    vector = sent.clone()
    for matrix in layout.inputs:  # parts are views: what is set here is set in the vector
        part = layout.part(vector, matrix)
        part.copy_(LARGE * torch.from_numpy(rng.normal(size=tuple(part.shape))))
    columns = layout.part(vector, layout.output)
    columns.zero_()
    columns[::2] = -SURE
    columns[:, request.round % view.public.num_classes] = 0
    return [Told({name: vector})]


def run(view: View, question: ClientClasses, rng: np.random.Generator) -> Array:
    """How far the column moved, in units of the furthest, where it was not spared."""
    layout, sent = layout_of(view), sent_models(view)
    if layout.output is None:
        raise CannotAttack("which of the weights lead to classes is not known")
    classes = view.public.num_classes
    found: dict[int, Array] = {}
    for message in view.best_rows(MODEL):
        meaning, rows = message.meaning, message.value.flatten(1).double()
        if message.round not in sent:
            raise CannotAttack(f"the weights sent in round {message.round} are not in the view")
        start = sent[message.round].double()
        if isinstance(meaning, Weights) and not meaning.change:
            rows = rows - start
        columns = layout.part(start, layout.output)
        fished = (columns != 0).any(0)
        unspoilt = (columns == 0).all(1)
        moved = layout.part(rows, layout.output)
        chosen = moved[:, unspoilt] if bool(unspoilt.any()) else moved
        scale = float(chosen.abs().max()) or 1.0
        heights = torch.where(fished, chosen.mean(1) / scale, -torch.inf).numpy()
        for client, height in zip(message.clients.numbers(), heights, strict=True):
            found[client] = np.maximum(found.get(client, height), height)
    nothing = np.zeros(classes)
    pairs = [divmod(int(i), classes) for i in question.ids]
    scored = np.array([found.get(client, nothing)[of] for client, of in pairs])
    return np.where(np.isfinite(scored), scored, 0.0) + 1e-12 * rng.normal(size=len(scored))


ATTACK = ActiveAttack(
    name="fished_classes",
    summary="which classes a client has at all, from weights that only a class's labels move",
    source="Wen et al. 2022, by class",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="a server that sends weights of its own making, in place of the averaged ones",
    adversaries=frozenset({"server"}),
    question=ClientClasses,
    floor=0.1,
    expected="exact after two rounds",
    exposes="that a client has a class at all, however rare: one case of a disease at a clinic",
    stopped_by="masks, which leave the sum over all clients; noise on the update",
    noticed="weights ten thousand times their usual size, and a loss that jumps",
    lie=lie,
    run=run,
    rounds=2,
    applies_to=has_an_output,
)
