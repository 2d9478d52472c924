"""Chosen weights for the layer that users apply to their features: latents are read as a code.

Every column of the weights sent reads some features of its own. With columns enough over the rounds
it is one each, and a latent is a piece of the record. With fewer, rows of 0 and 1 are coded by
powers of two, some twenty words to a number; a row divided by its sum is found by its count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from attacks.active.base import ActiveAttack, Request, Told
from attacks.base import Array, CannotAttack, View
from attacks.latents import LATENT, encoder_of, latents
from attacks.questions import RecordEntries
from securefg.protocol.meanings import Weights

ROUNDS, MOST_WORDS = 40, 20


def lie(
    view: View, question: RecordEntries, request: Request, rng: np.random.Generator
) -> Sequence[Told]:
    name = request.named(Weights(change=False))
    if name is None or not request.asks_for(LATENT):
        return ()
    code = codes(view)
    if request.round > len(code):
        return ()
    return [Told({name: torch.from_numpy(code[request.round - 1]).float()})]


def codes(view: View) -> Array:
    """(rounds, features, columns): what every column of every round reads."""
    features, columns = encoder_of(view).layers[0].shape
    rounds = _rounds(view)
    words = -(-features // (rounds * columns))
    found = np.zeros((rounds, features, columns))
    place = np.arange(features)
    slot = place // words
    found[slot // columns, place, slot % columns] = 2.0 ** (place % words)
    return found


def _rounds(view: View) -> int:
    """As many as give every feature a number of its own, if the run has them."""
    features, columns = encoder_of(view).layers[0].shape
    return min(ROUNDS, view.recipe.rounds, -(-features // columns))


def run(view: View, question: RecordEntries, rng: np.random.Generator) -> Array:
    code, seen = codes(view), latents(view)
    read = [seen[t + 1].of(question.ids) for t in range(len(code)) if t + 1 in seen]
    if len(read) < len(code):
        raise CannotAttack(f"latents of {len(read)} rounds; {len(code)} are needed")
    numbers = np.concatenate(read, 1)
    features = code.shape[1]
    words = -(-features // numbers.shape[1])
    if words == 1:
        return numbers[:, :features]
    return np.stack([_decoded(row, words)[:features] for row in numbers])


def _decoded(numbers: Array, words: int) -> Array:
    """The 0/1 row, divided by its sum where that is what fits; else what no scaling gives."""
    for count in range(1, 200):
        for scale in (1.0, float(count)):
            whole = np.rint(numbers * scale).clip(0, 2**words - 1).astype(np.int64)
            bits: Array = ((whole[:, None] >> np.arange(words)) & 1).ravel().astype(np.float64)
            if bits.sum() == count and np.abs(numbers * scale - whole).max() < 0.1:
                return bits / scale
    whole = np.rint(numbers).clip(0, 2**words - 1).astype(np.int64)
    found: Array = ((whole[:, None] >> np.arange(words)) & 1).ravel().astype(np.float64)
    return found


def _fits(view: View) -> str | None:
    layers = encoder_of(view).layers
    if len(layers) != 1 or len(layers[0].shape) != 2:
        return "the layer that makes latents is not a single matrix"
    features, columns = layers[0].shape
    if features > MOST_WORDS * columns * _rounds(view):
        return f"{features} features do not fit into {columns} numbers of {_rounds(view)} rounds"
    return None


ATTACK = ActiveAttack(
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
    exposes="a user's whole record, entry by entry",
    stopped_by="noise on the latents; users who keep their own weights and take none; masks do not",
    noticed="a matrix of zeros and powers of two in place of small random numbers",
    lie=lie,
    run=run,
    rounds=ROUNDS,
    applies_to=_fits,
)
