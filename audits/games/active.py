"""Games that only attacks of lying servers play."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack
from attacks.questions import ClientClasses, IsolatedSamples, LabelledNodes, RecordEntries
from audits.games.base import BinaryGame, OutcomeGame, asked_as, choose_victim, plays
from audits.games.features import node_features, row_cosines
from audits.games.labels import MANY_CLIENTS, class_shares
from audits.games.samples import TrainedSampleGame, nearest_of_padded, trained_samples
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

MANY_LABELLED, LEAST_LABELLED = 40, 8


@plays(LabelledNodes)
def labelled_nodes(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask which of a client's nodes have labels that it trains on. Half of the targets have.

    Labels and features of the targets are not told. Without the run nothing sets them apart, so the
    prior is chance.
    """
    if truth.experiment.public.known_labels is not None:
        raise CannotAttack("the server is given the training labels: which nodes have them is none")
    client = choose_victim(truth, adversary)
    shard = truth.experiment.shards[client]
    if shard.graph.split.train.dim() != 1:
        raise CannotAttack("nodes hold several samples each: a node has no one label")
    nodes, train = shard.node_ids.numpy(), shard.graph.split.train.numpy()
    count = min(MANY_LABELLED, int(train.sum()), int((~train).sum()))
    if count < LEAST_LABELLED:
        raise CannotAttack(
            f"client {client} has {int(train.sum())} labelled nodes of {len(nodes)}; at least "
            f"{LEAST_LABELLED} with and without a label are needed"
        )
    sides = [rng.permutation(nodes[side])[:count] for side in (train, ~train)]
    order = rng.permutation(2 * count)
    is_trained = np.repeat(np.array([1, 0], np.int64), count)
    return BinaryGame(
        question=LabelledNodes(ids=np.concatenate(sides)[order], client=client),
        metric="AUC over a client's labelled and other nodes",
        unit="label of a node",
        truth=is_trained[order],
    )


LEAST_CLASSES = 5


@plays(ClientClasses)
def client_classes(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask whether a client trains on any label of a class. Targets are pairs, with id k C + c.

    Prior: how many of the clients have the class, which is taken as known.
    """
    shares, clients = class_shares(truth, adversary)
    if not len(clients):
        raise CannotAttack("no client trains on labels")
    chosen = rng.permutation(len(clients))[:MANY_CLIENTS]
    has = shares[chosen] > 0
    if min(has.sum(), (~has).sum()) < LEAST_CLASSES:
        raise CannotAttack(
            f"{has.sum()} of {has.size} pairs of a client and a class have a label; at least "
            f"{LEAST_CLASSES} with and without one are needed"
        )
    classes = shares.shape[1]
    ids = clients[chosen][:, None] * classes + np.arange(classes)
    common = np.broadcast_to((shares > 0).mean(0), has.shape)
    order = rng.permutation(ids.size)
    return BinaryGame(
        question=ClientClasses(ids=ids.ravel()[order]),
        metric="AUC over clients and classes: whether the client has the class at all",
        unit="client",
        truth=has.astype(np.int64).ravel()[order],
        prior_scores=common.ravel()[order].astype(np.float64),
    )


@plays(IsolatedSamples)
def isolated_samples(
    truth: Truth, adversary: Adversary, rng: np.random.Generator
) -> TrainedSampleGame:
    """Ask for single samples of clients, with the better of two priors.

    Many random directions come nearer to one dense sample than other clients' samples do. A guess
    that is noise must not gain by that.
    """
    game = trained_samples(truth, adversary, rng)
    random = rng.normal(size=game.prior_guess.shape)
    priors = (game.prior_guess, random)
    best = max(priors, key=lambda guess: float(nearest_of_padded(guess, game.truth).mean()))
    return replace(asked_as(game, IsolatedSamples), prior_guess=best)


NEAR = 0.1


@plays(RecordEntries)
def record_entries(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> OutcomeGame:
    """Ask for the numbers of a node's record: dense records entry by entry.

    A cosine that is cut off at zero favours a random guess over the mean of dense rows. Here an
    entry counts if it is right to within a tenth of its spread, for which the mean is the best
    guess that knows nothing.
    """
    game = asked_as(node_features(truth, adversary, rng), RecordEntries)
    if game.outcome is not row_cosines:
        return game
    near = NEAR * truth.features().std(0)

    def right(guess: Array, rows: NDArray[np.float32]) -> Array:
        found: Array = (np.abs(guess - rows) <= near).mean(1)
        return found

    return replace(game, metric="share of a record's entries found", outcome=right)
