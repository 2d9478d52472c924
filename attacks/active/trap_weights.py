"""Trap weights: first-layer units that few nodes switch on, so that a unit's change is one node.

A unit that is on for one sample alone moves along that sample, whatever the others are. Directions
are drawn at random, and from round to round the threshold changes: by the bias where there is one,
else by more weight on what pushes a unit off, which works on features that are not negative
(Boenisch et al. 2023). Rounds in which the fewest units moved tell the most. Other
matrices that read features, or neighbours' rows, are set to zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from attacks.active.base import ActiveAttack, Request, Told
from attacks.base import Array, CannotAttack, View
from attacks.models import MODEL, first_layers, layout_of, sent_models
from attacks.questions import IsolatedSamples
from securefg.protocol.meanings import Layout, Weights

ROUNDS = 16
SCALE = 100.0
"""Of weights beside what training moves them by, so that no step switches a unit on or off."""
SAME = 0.98


def lie(
    view: View, question: IsolatedSamples, request: Request, rng: np.random.Generator
) -> Sequence[Told]:
    name = request.named(Weights(change=False))
    if name is None or not request.asks_for(MODEL):
        return ()
    sent = request.values[name]
    assert isinstance(sent, torch.Tensor)
    return [Told({name: trapped(view, sent, request.round, rng)})]


def trapped(view: View, sent: torch.Tensor, round: int, rng: np.random.Generator) -> torch.Tensor:
    """The weights sent in a round; parts of the vector are views of it."""
    layout, recipe = layout_of(view), view.recipe
    vector, trap = sent.clone(), layout.inputs[-1]
    classes = view.public.num_classes
    for layer in layout.layers:
        if len(layer.shape) == 2 and classes in layer.shape:
            layout.layer(vector, layer.name).zero_()
    for matrix in layout.inputs:
        layout.part(vector, matrix).zero_()
    size = SCALE * recipe.local_epochs * recipe.lr
    part = layout.part(vector, trap)
    drawn = rng.normal(size=tuple(part.shape)) / np.sqrt(part.shape[0])
    bias = bias_of(layout)
    if bias is None:
        drawn = np.where(drawn < 0, drawn * (1 + 0.25 * (round - 1)), drawn)
    else:
        layout.layer(vector, bias).fill_(-size * 2.0 * 2.0 ** (-round / 3))
    part.copy_(size * torch.from_numpy(drawn))
    if layout.output is not None:
        out = layout.part(vector, layout.output)
        out.copy_(torch.from_numpy(rng.normal(size=tuple(out.shape))))
    return vector


def bias_of(layout: Layout) -> str | None:
    """Of the layer that reads features, whichever of its matrices has it."""
    return next((m.bias for m in layout.inputs if m.bias is not None), None)


def run(view: View, question: IsolatedSamples, rng: np.random.Generator) -> Array:
    """For every client the directions along which units moved, of rounds with the fewest first."""
    layout, sent = layout_of(view), sent_models(view)
    found: dict[int, list[Array]] = {}
    for number, client, change, _ in first_layers(view):
        if number in sent:
            before = layout.part(sent[number].double(), layout.inputs[-1]).mT.numpy()
            found.setdefault(client, []).append(directions(change[-len(before) :], before))
    if missing := [k for k in question.ids.tolist() if k not in found]:
        raise CannotAttack(f"client {missing[0]} uploaded nothing that can be read")
    rows = [np.concatenate(sorted(found[k], key=len)) for k in question.ids.tolist()]
    return np.stack([_distinct(of_client, question.num_samples) for of_client in rows])


def directions(change: Array, before: Array) -> Array:
    """Unit rows; a sample switches its unit on, which tells its sign. Units that only decay are
    left out."""
    size = np.linalg.norm(change, axis=1)
    moved = size > 1e-3 * max(size.max(), 1e-30)
    decayed = (np.sign(change) == -np.sign(before)).mean(1) > 0.75
    rows, known = change[moved & ~decayed], before[moved & ~decayed]
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)
    found: Array = rows * np.where((rows * known).sum(1, keepdims=True) < 0, -1, 1)
    return found


def _distinct(rows: Array, count: int) -> Array:
    """The first rows, none twice; zeros where there are fewer."""
    found = np.zeros((count, rows.shape[1]))
    kept = 0
    for row in rows:
        if kept < count and not (found[:kept] @ row > SAME).any():
            found[kept] = row
            kept += 1
    return found


def _reads_features(view: View) -> str | None:
    layout = layout_of(view)
    known = bool(layout.inputs) and layout.output is not None
    return None if known else "which weights read features and lead to classes is not known"


ATTACK = ActiveAttack(
    name="trap_weights",
    summary="a client's samples, from units of the first layer that one node switches on",
    source="Boenisch et al. 2023; Fowl et al. 2022",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="a server that sends weights of its own making; how many samples a client has",
    adversaries=frozenset({"server"}),
    question=IsolatedSamples,
    floor=0.1,
    expected="single samples where honest weights give mixtures of all",
    exposes="the record of one person, out of the update of a whole client",
    stopped_by="noise on the update; masks hide whose it is, and blur it; many nodes per client",
    noticed="weights a hundred times their usual size, and a loss that jumps",
    lie=lie,
    run=run,
    rounds=ROUNDS,
    applies_to=_reads_features,
)
