"""Embedding inversion by a learnt non-linear decoder, for encoders that a linear map cannot invert.

A small multi-layer perceptron from upload to features, trained on the nodes whose features the
adversary has from elsewhere (Song and Raghunathan, CCS 2020, learn such a decoder for text).
"""

from __future__ import annotations

import numpy as np
from sklearn.decomposition import PCA
from sklearn.neural_network import MLPRegressor

from attacks.base import Array, Attack, Targets, View
from attacks.uploaded_rows import ROWS, decoder_pairs

ROUNDS = 5
COMPONENTS = 16


def run(view: View, targets: Targets, rng: np.random.Generator) -> Array:
    pairs = decoder_pairs(view, targets, ROUNDS)
    # Few known nodes cannot teach a thousand outputs: the network learns the directions in which
    # known features differ most, and every guess starts from their mean.
    directions = PCA(min(COMPONENTS, len(pairs.known) // 4), random_state=0).fit(pairs.features)
    decoder = MLPRegressor(
        hidden_layer_sizes=(32,),
        alpha=1.0,
        solver="lbfgs",
        max_iter=200,
        random_state=int(rng.integers(2**31)),
    )
    decoder.fit(pairs.known, directions.transform(pairs.features))
    guessed = decoder.predict(pairs.wanted).reshape(len(pairs.wanted), -1)
    found: Array = directions.inverse_transform(guessed)
    return found


ATTACK = Attack(
    name="mlp_decoder",
    summary="a node's features from its upload, by a small network trained on known nodes",
    source="Song and Raghunathan 2020, learnt inversion",
    needs=(ROWS,),
    assumes="uploads of all nodes, and the features of some of them from elsewhere",
    adversaries=frozenset({"server"}),
    game="node_features",
    floor=0.01,
    expected="as the linear decoder or a little above where hidden layers are uploaded",
    exposes="what a person's record holds, guessed from its embedding",
    stopped_by="noise on the rows; fewer numbers per row; masks, where several clients hold a node",
    run=run,
    rounds=ROUNDS,
)
