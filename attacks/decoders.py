"""Decoders from a node's uploads to its features, learnt from nodes whose features are known."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from attacks.base import Array, Attack, CannotAttack, Message, View
from attacks.questions import KnownRowsQuestion, NodeFeatures, RowsQuestion, SensitiveColumn
from attacks.rows import Rows, by_round, found_rows, is_words, list_uploaders
from securefg.models.optimizers import Adam
from securefg.protocol.meanings import Answers, NodeRows, Predictions

FEWEST = 10
"""Known nodes from which a decoder can learn anything."""


ROWS = (
    NodeRows(index="client"),
    NodeRows(index="nodes"),
    Predictions("nodes"),
    NodeRows(index="public"),
)
"""What decoders read: rows about the client itself, every node that it holds, or public nodes."""


def uploaded_rows(view: View, client: int | None, rounds: int = 1) -> Rows:
    """Return the rows of the first readable rounds, over the global index of nodes.

    If a client holds one node, client k's upload is the row of node k. If a client holds many
    nodes, its upload has a row for every node of the index or of the public nodes.
    """
    row_messages = found_rows(view, ROWS)
    if row_messages[0].meaning.fits(NodeRows(index="client")):
        return _one_node(row_messages, rounds)
    if client is None:
        raise CannotAttack("no client was named whose rows are attacked")
    return _of_client(row_messages, client, rounds)


@dataclass(frozen=True)
class Pairs:
    """A set of uploads of known nodes, to learn from, and uploads of the nodes to decode.

    rest   of the known nodes' features, what the prior does not say of them
    prior  what it says of the wanted ones
    """

    known: Array
    rest: Array
    wanted: Array
    prior: Array


def decoder_pairs(view: View, question: RowsQuestion, rounds: int) -> Pairs:
    """Return uploads standardised by the known nodes, and features over what the prior says of
    each."""
    if len(question.known_ids) < FEWEST:
        raise CannotAttack(f"fewer than {FEWEST} nodes with known features")
    rows = uploaded_rows(view, question.client, rounds)
    known, wanted = rows.rows_of(question.known_ids), rows.rows_of(question.ids)
    mean, spread = known.mean(0), known.std(0) + 1e-12
    features = question.known.astype(np.float64)
    kept = features.mean(0) if question.known_prior is None else question.known_prior
    prior = question.prior if question.prior is not None else np.tile(kept, (len(wanted), 1))
    return Pairs((known - mean) / spread, features - kept, (wanted - mean) / spread, prior)


def _one_node(found: list[Message], rounds: int) -> Rows:
    parts = list(by_round(found).values())[:rounds]
    ids = parts[0].ids
    return Rows(ids, np.concatenate([part.rows_of(ids) for part in parts], 1))


def _of_client(found: list[Message], client: int, rounds: int) -> Rows:
    mine = [m for m in found if client in m.clients.numbers()][:rounds]
    if not mine:
        raise CannotAttack(f"client {client} uploaded nothing that the view shows")
    rows = [m.value[m.clients.numbers().index(client)].double().numpy() for m in mine]
    held = np.flatnonzero(np.abs(rows[0]).sum(1))
    return Rows(held, np.concatenate([row[held] for row in rows], 1))


RIDGES = 10.0 ** np.arange(-2, 9)


def ridge_decoded(known: Array, features: Array, wanted: Array) -> Array:
    """Return guesses of the features behind `wanted`, from pairs of `known` rows and their
    features.

    Ridge regression by one singular value decomposition. The ridge is chosen by generalised
    cross-validation (Golub, Heath and Wahba 1979) among values up to infinity, at which every guess
    is the mean of the known features: what noise hides is not decoded.
    """
    mean, centre = features.mean(0), known.mean(0)
    left, size, right = np.linalg.svd(known - centre, full_matrices=False)
    targets = left.T @ (features - mean)
    shrink = size**2 / (size**2 + _choose_ridge(left, size, features - mean, targets))
    coefficients = (shrink / np.maximum(size, 1e-12))[:, None] * targets
    found: Array = mean + (wanted - centre) @ right.T @ coefficients
    return found


def _choose_ridge(left: Array, size: Array, features: Array, targets: Array) -> float:
    """Return the ridge that minimises |residual|^2 / (n - degrees of freedom)^2."""
    whole, explained = float((features**2).sum()), (targets**2).sum(1)

    def score(ridge: float) -> float:
        shrink = size**2 / (size**2 + ridge)
        residual = whole - float(((1 - (1 - shrink) ** 2) * explained).sum())
        return residual / (len(left) - 1 - float(shrink.sum())) ** 2

    scale = max(float((size**2).mean()), 1e-300)
    return min((float(ridge * scale) for ridge in RIDGES), key=score)


RIDGE_ROUNDS = 10


def ridge_decoder(view: View, question: NodeFeatures, rng: np.random.Generator) -> Array:
    """Return the best linear guess of each node's features.

    The adversary knows the features of some nodes from elsewhere and sees everybody's uploads.
    Ridge regression from upload to what the prior does not say of the features is the linear
    minimum-mean-square-error decoder that these pairs allow. It needs no knowledge of the encoder,
    nor of noise: where known pairs show no relation, every guess is the prior.

    Public nodes have a row at every client, in a space of its own. The guesses are averaged.
    """
    guesses = []
    for client in _clients_with_rows(view, question.client):
        pairs = decoder_pairs(view, replace(question, client=client), RIDGE_ROUNDS)
        guesses.append(pairs.prior + ridge_decoded(pairs.known, pairs.rest, pairs.wanted))
    mean: Array = np.mean(guesses, axis=0)
    return mean


def _clients_with_rows(view: View, client: int | None) -> list[int] | list[None]:
    """Return the clients who uploaded rows of public nodes, or the one that is asked about."""
    public = NodeRows(index="public")
    if client is None:
        return [None]
    is_public = found_rows(view, ROWS)[0].meaning.fits(public)
    return list_uploaders(view, client, public) if is_public else [client]


RIDGE_DECODER = Attack(
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
    run=ridge_decoder,
    rounds=RIDGE_ROUNDS,
)


MLP_ROUNDS = 5
MLP_COMPONENTS = 16
MLP_UNITS = 32
MLP_STEPS = 200
MLP_DECAY, MLP_LR = 1e-2, 1e-2
HELD_OUT = 0.25
TRACE = 1e-3


def mlp_decoder(view: View, question: NodeFeatures, rng: np.random.Generator) -> Array:
    """Return guesses of features by a small network, for encoders that a linear map cannot invert.

    The network maps uploads to features and is trained on nodes whose features are known from
    elsewhere (Song and Raghunathan, CCS 2020, learn such a decoder for text).
    """
    pairs = decoder_pairs(view, question, MLP_ROUNDS)
    # Few known nodes cannot teach a thousand outputs: the network learns the directions in which
    # known features differ most from the prior, where every guess starts.
    directions = np.linalg.svd(pairs.rest, full_matrices=False)[2]
    directions = directions[: min(MLP_COMPONENTS, len(pairs.rest) // 4)]
    places = pairs.rest @ directions.T
    stream = torch.Generator().manual_seed(int(rng.integers(2**62)))
    taught = rng.permutation(len(places)) >= HELD_OUT * len(places)
    tried = taught_network(pairs.known[taught], places[taught], pairs.known[~taught], stream)
    features = question.known[~taught].astype(np.float64)
    share = fitted_share(tried, places[~taught])
    trust = helpful_share(share, tried @ directions, features - pairs.rest[~taught], features)
    guessed = taught_network(pairs.known, places, pairs.wanted, stream)
    found: Array = pairs.prior + trust * guessed @ directions
    return found


def fitted_share(guess: Array, truth: Array) -> float:
    """Return the factor by which guesses of nodes that did not teach fit best.

    If no factor fits, it is a trace, so that guesses only break ties of the mean.
    """
    share = float((guess * truth).sum() / max(float((guess**2).sum()), 1e-12))
    return min(max(share, TRACE), 1.0)


def helpful_share(share: float, guess: Array, prior: Array, truth: Array) -> float:
    """Return as much of the share as makes guesses of nodes that did not teach better than the
    prior.

    A smaller square error can still put words in a worse order.
    """
    tried = (TRACE, share / 4, share / 2, share)
    return max(tried, key=lambda trust: mean_likeness(prior + trust * guess, truth))


def mean_likeness(guess: Array, truth: Array) -> float:
    """Return the mean over nodes: of words the share of pairs in the right order, else the
    cosine."""
    if not is_words(truth):
        sizes = np.linalg.norm(guess, axis=1) * np.linalg.norm(truth, axis=1)
        return float(((guess * truth).sum(1) / np.maximum(sizes, 1e-12)).mean())
    there = truth > 0
    ranks, ones = guess.argsort(1).argsort(1) + 1, there.sum(1)
    below = (ranks * there).sum(1) - ones * (ones + 1) / 2
    return float((below / np.maximum(ones * (truth.shape[1] - ones), 1)).mean())


def taught_network(known: Array, places: Array, wanted: Array, stream: torch.Generator) -> Array:
    """Return what a perceptron with one hidden layer, taught by known pairs, says of wanted
    rows."""
    inputs, outputs = torch.from_numpy(known).float(), torch.from_numpy(places).float()
    scale = outputs.std().clamp_min(1e-12)
    shapes = ((inputs.shape[1], MLP_UNITS), (MLP_UNITS,), (MLP_UNITS, outputs.shape[1]))
    layers = [
        (torch.randn(shape, generator=stream) / shape[0] ** 0.5).requires_grad_()
        for shape in shapes
    ]
    first, bias, second = layers
    adam = Adam(layers, 3 * [MLP_DECAY], MLP_LR)
    for _ in range(MLP_STEPS):
        loss = ((inputs @ first + bias).relu() @ second - outputs / scale).square().mean()
        adam.step(torch.autograd.grad(loss, layers))
    with torch.no_grad():
        said = (torch.from_numpy(wanted).float() @ first + bias).relu() @ second * scale
    found: Array = said.double().numpy()
    return found


MLP_DECODER = Attack(
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
    run=mlp_decoder,
    rounds=MLP_ROUNDS,
)


def decoded_attribute(
    known: Array, question: KnownRowsQuestion, wanted: Array, rng: np.random.Generator
) -> Array:
    """Return scores of the targets by ridge regression from nodes whose number is known."""
    if len(question.known_ids) < FEWEST:
        raise CannotAttack(f"fewer than {FEWEST} nodes whose number is known")
    numbers = question.known[:, :1].astype(np.float64)
    found: Array = ridge_decoded(known, numbers, wanted)[:, 0]
    return found + 1e-9 * rng.normal(size=len(found))


ATTRIBUTE_ROUNDS = 5


def attribute_from_rows(view: View, question: SensitiveColumn, rng: np.random.Generator) -> Array:
    """Return scores of a sensitive number of each node, from the rows that its client uploads."""
    pairs = decoder_pairs(view, question, ATTRIBUTE_ROUNDS)
    return decoded_attribute(pairs.known, question, pairs.wanted, rng)


ATTRIBUTE_FROM_ROWS = Attack(
    name="attribute_from_rows",
    summary="a sensitive number of a node, from its uploaded rows",
    source="attribute inference after Fredrikson et al. 2014; Duddu et al. 2020 on embeddings",
    needs=(ROWS,),
    assumes="uploads of all nodes, and the sensitive number of some of them",
    adversaries=frozenset({"server"}),
    question=SensitiveColumn,
    floor=0.02,
    expected="as far as the number is in the embedding: AUC 0.6 to 0.9",
    exposes="whether a sensitive number of a person is above the median",
    stopped_by="noise on the rows; masks, where several clients hold a node",
    run=attribute_from_rows,
    rounds=ATTRIBUTE_ROUNDS,
)


def attribute_from_answers(
    view: View, question: SensitiveColumn, rng: np.random.Generator
) -> Array:
    """Return scores of a sensitive number of others' nodes, from the released model's answers."""
    if view.answers is None:
        raise CannotAttack("the released model answers for no nodes")
    said = view.answers.double()
    rows = torch.cat([said, said.softmax(-1)], -1).numpy()
    mean, spread = rows.mean(0), rows.std(0) + 1e-12
    rows = (rows - mean) / spread
    return decoded_attribute(rows[question.known_ids], question, rows[question.ids], rng)


ATTRIBUTE_FROM_ANSWERS = Attack(
    name="attribute_from_answers",
    summary="a sensitive number of others' nodes, from what the released model answers",
    source="attribute inference after Fredrikson et al. 2014",
    needs=(Answers(),),
    assumes="the released model's answers, and the sensitive number of some nodes: one's own",
    adversaries=frozenset({"client", "outsider"}),
    question=SensitiveColumn,
    floor=0.02,
    expected="as far as classes and the number go together",
    exposes="whether a sensitive number of a person at another client is above the median",
    stopped_by="not answering for others' nodes; noise on the answers; noise on uploads hardly",
    run=attribute_from_answers,
    rounds=30,
)


ATTACKS = (RIDGE_DECODER, MLP_DECODER, ATTRIBUTE_FROM_ROWS, ATTRIBUTE_FROM_ANSWERS)
