"""Embedding inversion by a linear decoder: the best linear guess of a node's features.

The adversary knows the features of some nodes from elsewhere and sees everybody's uploads; ridge
regression from upload to what the prior does not say of the features is the linear
minimum-mean-square-error decoder that these pairs allow. Needs no knowledge of the encoder, nor of
noise: where known pairs show no relation, every guess is the prior.
"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, View
from attacks.linear_decoder import ridge_decoded
from attacks.questions import NodeFeatures
from attacks.uploaded_rows import ROWS, decoder_pairs

ROUNDS = 10


def run(view: View, question: NodeFeatures, rng: np.random.Generator) -> Array:
    pairs = decoder_pairs(view, question, ROUNDS)
    found: Array = pairs.prior + ridge_decoded(pairs.known, pairs.rest, pairs.wanted)
    return found


ATTACK = Attack(
    name="ridge_decoder",
    summary="a node's features from its upload, by ridge regression on known nodes",
    source="LMMSE decoder learnt from auxiliary pairs",
    needs=(ROWS,),
    assumes="uploads of all nodes, and the features of some of them from elsewhere",
    adversaries=frozenset({"server"}),
    question=NodeFeatures,
    floor=0.01,
    expected="a gain of 0.02 to 0.1 in AUC over word frequency at 16 dimensions",
    exposes="what a person's record holds, guessed from its embedding",
    stopped_by="noise on the rows; fewer numbers per row; masks, where several clients hold a node",
    run=run,
    rounds=ROUNDS,
)
