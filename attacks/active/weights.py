"""Servers that send weights of their own making."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from attacks.active.base import ActiveAttack, Request, Told
from attacks.base import Array, CannotAttack, View
from attacks.labels import has_an_output
from attacks.latents import LATENT, encoder_of, uploaded_latents
from attacks.models import MODEL, first_layers, layout_of, sent_models
from attacks.questions import ClientClasses, IsolatedSamples, RecordEntries
from securefg.protocol.meanings import Layout, Weights

CODE_ROUNDS, MOST_WORDS = 40, 20


def send_codes(
    view: View, question: RecordEntries, request: Request, rng: np.random.Generator
) -> Sequence[Told]:
    """Send weights that are a code, as long as the code has rounds."""
    name = request.field_with_meaning(Weights(change=False))
    if name is None or not request.asks_for(LATENT):
        return ()
    code = code_features(view)
    if request.round > len(code):
        return ()
    return [Told({name: torch.from_numpy(code[request.round - 1]).float()})]


def code_features(view: View) -> Array:
    """Return (rounds, features, columns): what every column of every round reads."""
    features, columns = encoder_of(view).layers[0].shape
    rounds = _code_rounds(view)
    words = -(-features // (rounds * columns))
    column_readings = np.zeros((rounds, features, columns))
    place = np.arange(features)
    slot = place // words
    column_readings[slot // columns, place, slot % columns] = 2.0 ** (place % words)
    return column_readings


def _code_rounds(view: View) -> int:
    """Return as many rounds as give every feature a number of its own, if the run has them."""
    features, columns = encoder_of(view).layers[0].shape
    return min(CODE_ROUNDS, view.recipe.rounds, -(-features // columns))


def chosen_projections(view: View, question: RecordEntries, rng: np.random.Generator) -> Array:
    """Read features off latents made with weights that are a code.

    Every column of the weights sent reads some features of its own. With enough columns over the
    rounds, each reads one feature, and a latent is a piece of the record. With fewer, rows of 0 and
    1 are coded by powers of two, some twenty words to a number. A row divided by its sum is found
    by its count.
    """
    code, seen = code_features(view), uploaded_latents(view)
    read = [seen[t + 1].rows_of(question.ids) for t in range(len(code)) if t + 1 in seen]
    if len(read) < len(code):
        raise CannotAttack(f"latents of {len(read)} rounds; {len(code)} are needed")
    numbers = np.concatenate(read, 1)
    features = code.shape[1]
    words = -(-features // numbers.shape[1])
    if words == 1:
        return numbers[:, :features]
    return np.stack([_decode_row(row, words)[:features] for row in numbers])


def _decode_row(numbers: Array, words: int) -> Array:
    """Return the 0/1 row, divided by its sum if that fits, and the nearest bits otherwise."""
    for count in range(1, 200):
        for scale in (1.0, float(count)):
            whole = np.rint(numbers * scale).clip(0, 2**words - 1).astype(np.int64)
            bits: Array = ((whole[:, None] >> np.arange(words)) & 1).ravel().astype(np.float64)
            if bits.sum() == count and np.abs(numbers * scale - whole).max() < 0.1:
                return bits / scale
    whole = np.rint(numbers).clip(0, 2**words - 1).astype(np.int64)
    found: Array = ((whole[:, None] >> np.arange(words)) & 1).ravel().astype(np.float64)
    return found


def _reason_unfit(view: View) -> str | None:
    layers = encoder_of(view).layers
    if len(layers) != 1 or len(layers[0].shape) != 2:
        return "the layer that makes latents is not a single matrix"
    features, columns = layers[0].shape
    if features > MOST_WORDS * columns * _code_rounds(view):
        return (
            f"{features} features do not fit into {columns} numbers of {_code_rounds(view)} rounds"
        )
    return None


CHOSEN_PROJECTIONS = ActiveAttack(
    name="chosen_projections",
    summary="a user's features, from latents made with weights that are a code",
    source="one feature to a number, or twenty of 0 and 1 by powers of two",
    needs=(LATENT,),
    hears=(Weights(change=False),),
    assumes="a server that sends weights of its own making to users who apply them to features",
    adversaries=frozenset({"server"}),
    question=RecordEntries,
    floor=0.1,
    expected="every row exactly, where 16 numbers of honest weights give a guess",
    exposes="the entries of a user's record",
    stopped_by="noise on the latents; users who keep their own weights and take none; masks do not",
    noticed="a matrix of zeros and powers of two in place of small random numbers",
    lie=send_codes,
    run=chosen_projections,
    rounds=CODE_ROUNDS,
    applies_to=_reason_unfit,
)


SURE, LARGE = 100.0, 1e4
"""Of output and first weights: what training moves them by is small beside either."""


def send_fishing_weights(
    view: View, question: ClientClasses, request: Request, rng: np.random.Generator
) -> Sequence[Told]:
    """Send weights under which only a class's own labels move its column.

    Half of the units get weights so negative that the probabilities of all classes but one are zero
    in floating point. The other half get zero, so that nothing decays there. Then sum_i (y_ic -
    p_ic) h_i has no p left: column c moves if the client has a label of class c, and not by a bit
    if it has none, whatever the optimizer and however many steps. The class that was spared is
    fished in another round.
    """
    name = request.field_with_meaning(Weights(change=False))
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


def fished_classes(view: View, question: ClientClasses, rng: np.random.Generator) -> Array:
    """Return how far the class's column moved, in units of the furthest, if it was not spared."""
    layout, sent = layout_of(view), sent_models(view)
    if layout.output is None:
        raise CannotAttack("which of the weights lead to classes is not known")
    classes = view.public.num_classes
    client_heights: dict[int, Array] = {}
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
            client_heights[client] = np.maximum(client_heights.get(client, height), height)
    nothing = np.zeros(classes)
    pairs = [divmod(int(i), classes) for i in question.ids]
    scored = np.array([client_heights.get(client, nothing)[of] for client, of in pairs])
    return np.where(np.isfinite(scored), scored, 0.0) + 1e-12 * rng.normal(size=len(scored))


FISHED_CLASSES = ActiveAttack(
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
    exposes="that a client has a class at all, however rare",
    stopped_by="masks, which leave the sum over all clients; noise on the update",
    noticed="weights ten thousand times their usual size, and a loss that jumps",
    lie=send_fishing_weights,
    run=fished_classes,
    rounds=2,
    applies_to=has_an_output,
)


TRAP_ROUNDS = 16
SCALE = 100.0
"""Of weights beside what training moves them by, so that no step switches a unit on or off."""
SAME = 0.98


def send_traps(
    view: View, question: IsolatedSamples, request: Request, rng: np.random.Generator
) -> Sequence[Told]:
    """Send first-layer units that few nodes switch on."""
    name = request.field_with_meaning(Weights(change=False))
    if name is None or not request.asks_for(MODEL):
        return ()
    sent = request.values[name]
    assert isinstance(sent, torch.Tensor)
    return [Told({name: make_trap_weights(view, sent, request.round, rng)})]


def make_trap_weights(
    view: View, sent: torch.Tensor, round: int, rng: np.random.Generator
) -> torch.Tensor:
    """Return the weights sent in a round.

    A unit that is on for one sample alone moves along that sample, whatever the others are.
    Directions are drawn at random, and the threshold changes from round to round: by the bias if
    there is one, else by more weight on inputs that push a unit off, which works on features that
    are not negative (Boenisch et al. 2023). Other matrices that read features, or neighbours' rows,
    are set to zero. Parts of the vector are views of it.
    """
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
    """Return the bias of the layer that reads features, whichever of its matrices has it."""
    return next((m.bias for m in layout.inputs if m.bias is not None), None)


def trap_weights(view: View, question: IsolatedSamples, rng: np.random.Generator) -> Array:
    """Return by client the directions along which units moved, rounds with the fewest first."""
    layout, sent = layout_of(view), sent_models(view)
    unit_directions: dict[int, list[Array]] = {}
    for number, client, change, _ in first_layers(view):
        if number in sent:
            before = layout.part(sent[number].double(), layout.inputs[-1]).mT.numpy()
            unit_directions.setdefault(client, []).append(
                change_directions(change[-len(before) :], before)
            )
    if missing := [k for k in question.ids.tolist() if k not in unit_directions]:
        raise CannotAttack(f"client {missing[0]} uploaded nothing that can be read")
    rows = [np.concatenate(sorted(unit_directions[k], key=len)) for k in question.ids.tolist()]
    return np.stack([_distinct_rows(of_client, question.num_samples) for of_client in rows])


def change_directions(change: Array, before: Array) -> Array:
    """Return unit rows of the change, without units that only decay.

    A sample switches its unit on, which tells its sign.
    """
    size = np.linalg.norm(change, axis=1)
    moved = size > 1e-3 * max(size.max(), 1e-30)
    decayed = (np.sign(change) == -np.sign(before)).mean(1) > 0.75
    rows, known = change[moved & ~decayed], before[moved & ~decayed]
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)
    found: Array = rows * np.where((rows * known).sum(1, keepdims=True) < 0, -1, 1)
    return found


def _distinct_rows(rows: Array, count: int) -> Array:
    """Return the first rows, none twice, and zeros if there are fewer."""
    distinct_rows = np.zeros((count, rows.shape[1]))
    kept = 0
    for row in rows:
        if kept < count and not (distinct_rows[:kept] @ row > SAME).any():
            distinct_rows[kept] = row
            kept += 1
    return distinct_rows


def _reads_features(view: View) -> str | None:
    layout = layout_of(view)
    known = bool(layout.inputs) and layout.output is not None
    return None if known else "which weights read features and lead to classes is not known"


TRAP_WEIGHTS = ActiveAttack(
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
    exposes="a record close to that of one person, out of the update of a whole client",
    stopped_by="noise on the update; masks hide whose it is, and blur it; many nodes per client",
    noticed="weights a hundred times their usual size, and a loss that jumps",
    lie=send_traps,
    run=trap_weights,
    rounds=TRAP_ROUNDS,
    applies_to=_reads_features,
)


ATTACKS = (CHOSEN_PROJECTIONS, FISHED_CLASSES, TRAP_WEIGHTS)
