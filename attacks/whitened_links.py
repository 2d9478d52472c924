"""Links from the rows of several rounds: stacked, whitened, then compared.

Every round's rows are A_hat times something that training moved, so rounds differ in the direction
of the features and agree in that of the graph. Side by side they span it; whitening (the left
singular vectors with singular values above a share of the largest) gives every direction the same
say, and the cosine of two whitened rows is then large where the graph joins two nodes.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, CannotAttack, View
from attacks.leaning import leaning, pair_shift
from attacks.questions import ClientLinks
from attacks.rows import client_rounds, cosines, noise_of
from securefg.protocol.meanings import NodeRows, Predictions

ROWS = (NodeRows("final", index="nodes"), Predictions("nodes"))
CUT = 1e-3
"""Directions below this share of the largest singular value are rounding."""
MOST = 8
"""At most one direction per so many nodes: a basis of everything would tell nothing."""


def run(view: View, question: ClientLinks, rng: np.random.Generator) -> Array:
    rounds, noise = client_rounds(view, question.client or 0, ROWS), noise_of(view, ROWS)
    stacked = np.concatenate([rows.double().numpy() for rows in rounds.values()], 1)
    held = np.abs(stacked).sum(1) > 0
    held &= np.isin(np.arange(len(held)), question.ids)  # rows of others may be noise alone
    if held.sum() < 3:
        raise CannotAttack("fewer than three nodes have rows")
    whitened = np.zeros((len(stacked), min(int(held.sum()), stacked.shape[1])))
    whitened[held] = whiten(stacked[held], noise.sd if noise else 0.0)
    shift = pair_shift(noise, stacked.shape[1] // len(rounds), len(rounds))
    return leaning(cosines(whitened, question.ids), question.prior, shift)


def whiten(rows: Array, noise_sd: float = 0.0) -> Array:
    """The first left singular vectors of the centred rows; the others are zero. Noise alone has
    singular values up to sd (sqrt(n) + sqrt(m)): what lies below is it, and of what lies above it
    is a part, so that directions count by what is left."""
    left, size, _ = np.linalg.svd(rows - rows.mean(0), full_matrices=False)
    edge = noise_sd * sum(np.sqrt(rows.shape))
    number = np.arange(len(size))
    count = ((size > CUT * size[0]) & (number < max(1, len(rows) // MOST))).astype(float)
    left_over = np.sqrt(np.maximum(0, 1 - (edge / np.maximum(size, 1e-300)) ** 2))
    kept: Array = left * count * left_over
    return kept if kept.any() else left * (number == 0)


ATTACK = Attack(
    name="whitened_links",
    summary="a client's edges, from uploaded rows of several rounds, stacked and whitened",
    source="rows of all rounds span the graph's directions; whitening weighs them alike",
    needs=(ROWS,),
    assumes="one client's uploaded embeddings or predictions of several rounds",
    adversaries=frozenset({"server"}),
    question=ClientLinks,
    floor=0.1,
    expected="AUC 0.999 on Cora's final-layer embeddings, where the last round's cosine has 0.986",
    exposes="who is connected to whom at one client, better with every round",
    stopped_by="masks; noise on the rows; fewer rounds",
    run=run,
    rounds=10,
)
