"""Embedding inversion by a learnt non-linear decoder, for encoders that a linear map cannot invert.

A small multi-layer perceptron from upload to features, trained on the nodes whose features the
adversary has from elsewhere (Song and Raghunathan, CCS 2020, learn such a decoder for text).
"""

from __future__ import annotations

import numpy as np
import torch

from attacks.base import Array, Attack, View
from attacks.latent_inversion import is_words
from attacks.questions import NodeFeatures
from attacks.uploaded_rows import ROWS, decoder_pairs
from securefg.models.optimizers import Adam

ROUNDS = 5
COMPONENTS = 16
HIDDEN = 32
STEPS = 200
DECAY, LR = 1e-2, 1e-2
HELD_OUT = 0.25
TRACE = 1e-3


def run(view: View, question: NodeFeatures, rng: np.random.Generator) -> Array:
    pairs = decoder_pairs(view, question, ROUNDS)
    # Few known nodes cannot teach a thousand outputs: the network learns the directions in which
    # known features differ most from the prior, where every guess starts.
    directions = np.linalg.svd(pairs.rest, full_matrices=False)[2]
    directions = directions[: min(COMPONENTS, len(pairs.rest) // 4)]
    places = pairs.rest @ directions.T
    stream = torch.Generator().manual_seed(int(rng.integers(2**62)))
    taught = rng.permutation(len(places)) >= HELD_OUT * len(places)
    tried = taught_network(pairs.known[taught], places[taught], pairs.known[~taught], stream)
    features = question.known[~taught].astype(np.float64)
    share = fitted_share(tried, places[~taught])
    trust = helpful(share, tried @ directions, features - pairs.rest[~taught], features)
    guessed = taught_network(pairs.known, places, pairs.wanted, stream)
    found: Array = pairs.prior + trust * guessed @ directions
    return found


def fitted_share(guess: Array, truth: Array) -> float:
    """The factor by which guesses of nodes that did not teach fit best; a trace where none does,
    so that they break ties of the mean and no more."""
    share = float((guess * truth).sum() / max(float((guess**2).sum()), 1e-12))
    return min(max(share, TRACE), 1.0)


def helpful(share: float, guess: Array, prior: Array, truth: Array) -> float:
    """As much of the share as makes guesses of nodes that did not teach better than the prior is:
    a smaller square error can still put words in a worse order."""
    tried = (TRACE, share / 4, share / 2, share)
    return max(tried, key=lambda trust: likeness(prior + trust * guess, truth))


def likeness(guess: Array, truth: Array) -> float:
    """Mean over nodes: of words the share of pairs in the right order, else the cosine."""
    if not is_words(truth):
        sizes = np.linalg.norm(guess, axis=1) * np.linalg.norm(truth, axis=1)
        return float(((guess * truth).sum(1) / np.maximum(sizes, 1e-12)).mean())
    there = truth > 0
    ranks, ones = guess.argsort(1).argsort(1) + 1, there.sum(1)
    below = (ranks * there).sum(1) - ones * (ones + 1) / 2
    return float((below / np.maximum(ones * (truth.shape[1] - ones), 1)).mean())


def taught_network(known: Array, places: Array, wanted: Array, stream: torch.Generator) -> Array:
    """What a perceptron with one hidden layer, taught by known pairs, says of the wanted rows."""
    inputs, outputs = torch.from_numpy(known).float(), torch.from_numpy(places).float()
    scale = outputs.std().clamp_min(1e-12)
    shapes = ((inputs.shape[1], HIDDEN), (HIDDEN,), (HIDDEN, outputs.shape[1]))
    layers = [
        (torch.randn(shape, generator=stream) / shape[0] ** 0.5).requires_grad_()
        for shape in shapes
    ]
    first, bias, second = layers
    adam = Adam(layers, 3 * [DECAY], LR)
    for _ in range(STEPS):
        loss = ((inputs @ first + bias).relu() @ second - outputs / scale).square().mean()
        adam.step(torch.autograd.grad(loss, layers))
    with torch.no_grad():
        said = (torch.from_numpy(wanted).float() @ first + bias).relu() @ second * scale
    found: Array = said.double().numpy()
    return found


ATTACK = Attack(
    name="mlp_decoder",
    summary="a node's features from its upload, by a small network trained on known nodes",
    source="Song and Raghunathan 2020, learnt inversion",
    needs=(ROWS,),
    assumes="uploads of all nodes, and the features of some of them from elsewhere",
    adversaries=frozenset({"server"}),
    question=NodeFeatures,
    floor=0.01,
    expected="as the linear decoder or a little above where hidden layers are uploaded",
    exposes="what a person's record holds, guessed from its embedding",
    stopped_by="noise on the rows; fewer numbers per row; masks, where several clients hold a node",
    run=run,
    rounds=ROUNDS,
)
