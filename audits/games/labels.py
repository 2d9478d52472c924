"""Games about the labels and classes that clients train on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack
from attacks.questions import (
    ClassRatios,
    ClientLabels,
    OthersLabels,
    TrainedClasses,
    TrainingLabels,
)
from audits import metrics
from audits.foreign import ForeignTruth
from audits.games.base import (
    NULL_DRAWS,
    NULL_SDS,
    BinaryGame,
    Game,
    OutcomeGame,
    choose_targets,
    choose_victim,
    plays,
)
from audits.metrics import area_under_curve
from audits.truth import Truth
from securefg.foundation.interval import Interval
from securefg.protocol.transcript import Adversary

FEWEST = 5


@dataclass(frozen=True)
class LabelGame(Game):
    """A game that compares guesses of labels that were trained on with guesses of other labels.

    truth    the class of every target
    trained  whether its label was used for training

    The prior is the accuracy on the untrained targets: what the model says of anybody.
    """

    truth: NDArray[np.int64]
    trained: NDArray[np.bool_]

    def measure(self, guess: Array) -> Interval:
        """Return the share of trained labels that the guess has right."""
        self.check(guess)
        return _right_share((guess == self.truth)[self.trained])

    def prior(self, guess: Array) -> Interval:
        """Return the share of untrained labels that the guess has right."""
        return _right_share((guess == self.truth)[~self.trained])

    def gain(self, guess: Array) -> Interval:
        """Return the difference of the two shares. They are over different nodes: variances add."""
        right = guess == self.truth
        return _share_difference(right[self.trained], right[~self.trained])

    def null(self, guess: Array, rng: np.random.Generator) -> tuple[Interval, bool]:
        """Permute which labels were used, so that the two shares are of like nodes."""
        right, gains = guess == self.truth, []
        for _ in range(NULL_DRAWS):
            drawn = rng.permutation(self.trained)
            gains.append(right[drawn].mean() - right[~drawn].mean())
        low, high = np.quantile(gains, [0.025, 0.975])
        mean = float(np.mean(gains))
        spread = NULL_SDS * float(np.std(gains)) / NULL_DRAWS**0.5
        return Interval(value=mean, low=float(low), high=float(high)), abs(mean) <= spread + 1e-9

    def per_record(self, guess: Array) -> dict[str, NDArray[Any]]:
        """Return which guesses are right, and which labels were used."""
        return {"right": guess == self.truth, "trained": self.trained}


@plays(TrainingLabels)
def training_labels(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> LabelGame:
    """Ask which labels one client trained on. Labelled nodes count, unlabelled ones are the
    prior."""
    client = choose_victim(truth, adversary)
    shard = truth.experiment.shards[client]
    if shard.graph.labels.dim() != 1:
        raise CannotAttack("nodes hold several samples each: a node has no one label")
    order = rng.permutation(np.flatnonzero(shard.graph.labels.numpy() >= 0))
    trained = shard.graph.split.train.numpy()[order]
    if min(trained.sum(), (~trained).sum()) < FEWEST:
        raise CannotAttack(f"client {client} has too few labelled or unlabelled nodes")
    return LabelGame(
        question=TrainingLabels(ids=shard.node_ids.numpy()[order], client=client),
        metric="share of training labels guessed; prior: of other nodes' labels",
        unit="label of a node",
        truth=shard.graph.labels.numpy()[order],
        trained=trained,
    )


def _right_share(right: NDArray[np.bool_]) -> Interval:
    found = metrics.clopper_pearson(int(right.sum()), len(right))
    return Interval(value=found.value, low=found.low, high=found.high)


def _share_difference(first_hits: NDArray[np.bool_], other: NDArray[np.bool_]) -> Interval:
    """Return the difference of two shares with the interval of Newcombe 1998, method 10, over exact
    ends.

    Five labels that a guess has right by chance are then no gain.
    """
    ends = [metrics.clopper_pearson(int(x.sum()), len(x)) for x in (first_hits, other)]
    first, second = ends
    value = first.value - second.value
    below = math.hypot(first.value - first.low, second.high - second.value)
    above = math.hypot(first.high - first.value, second.value - second.low)
    return Interval(value=value, low=value - below, high=value + above)


MANY_OF_EACH = 500


@plays(OthersLabels)
def others_labels(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> LabelGame:
    """Ask which labels others trained on, of nodes that the adversary does not hold.

    Unlabelled nodes are the prior.
    """
    graph, x = truth.graph, truth.experiment
    if graph.labels.dim() != 1:
        raise CannotAttack("nodes hold several samples each: a node has no one label")
    own = [x.shards[k].node_ids for k in sorted(adversary.clients)]
    theirs = ~np.isin(np.arange(graph.num_nodes), torch.cat(own).numpy() if own else [])
    labels, train = graph.labels.numpy(), graph.split.train.numpy().copy()
    if x.canaries is not None:  # made to be remembered: they have an audit of their own
        theirs[x.canaries.nodes.numpy()] = False
    held = np.isin(np.arange(graph.num_nodes), x.partition.nodes.numpy())
    sides = [np.flatnonzero(theirs & held & (labels >= 0) & side) for side in (train, ~train)]
    if min(map(len, sides)) < FEWEST:
        raise CannotAttack(
            f"others hold {len(sides[0])} labelled and {len(sides[1])} other nodes; at least "
            f"{FEWEST} of each are needed"
        )
    ids = np.concatenate([rng.permutation(side)[:MANY_OF_EACH] for side in sides])
    ids = rng.permutation(ids)
    return LabelGame(
        question=OthersLabels(ids=ids),
        metric="share of others' training labels guessed; prior: of other nodes' labels",
        unit="label of a node",
        truth=labels[ids],
        trained=train[ids],
    )


MANY_LABELS = 500


@plays(ClientLabels)
def client_labels(
    truth: Truth | ForeignTruth, adversary: Adversary, rng: np.random.Generator
) -> OutcomeGame:
    """Ask which class a client with a label trained on. The prior is the most frequent class."""
    labels, trained = _own_classes(truth)
    others = np.setdiff1d(trained, sorted(adversary.clients))
    wanted = choose_targets(others, MANY_LABELS, rng, 5)
    most = np.bincount(labels[wanted]).argmax()
    return OutcomeGame(
        question=ClientLabels(ids=wanted),
        metric="share of labels found",
        unit="label of a client",
        truth=labels[wanted],
        outcome=_same_labels,
        prior_guess=np.full(len(wanted), most, np.float64),
    )


def _own_classes(truth: Truth | ForeignTruth) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return classes by client, and the clients whose samples all have one class."""
    if isinstance(truth, ForeignTruth):
        labels = np.full(truth.exchange.clients, -1, np.int64)
        for client, classes in truth.labels.items():
            labels[client] = classes[0] if len(set(classes.tolist())) == 1 else -1
        return labels, np.flatnonzero(labels >= 0)
    graph = truth.graph
    if graph.labels.dim() != 1:
        raise CannotAttack("samples are labelled apart: a client has no one class")
    if int(truth.experiment.partition.sizes.max()) != 1:
        raise CannotAttack("clients hold several nodes: a client has no one class")
    return graph.labels.numpy(), np.flatnonzero(graph.split.train.numpy())


def _same_labels(guess: Array, truth: NDArray[np.int64]) -> Array:
    found: Array = (guess == truth).astype(np.float64)
    return found


LEAST_CLIENTS, MANY_CLIENTS, LEAST_OF_EACH = 4, 400, 3


@plays(ClassRatios)
def class_ratios(
    truth: Truth | ForeignTruth, adversary: Adversary, rng: np.random.Generator
) -> BinaryGame:
    """Ask whether a client has more of a class than the median client, a property of all its data.

    Targets are pairs of a client and a class, one class left out since shares add up to one. Id k C
    + c stands for client k and class c. The prior is the share of clients above the median, class
    by class. It differs between classes where shares are tied, as those of a class that nobody
    trains on.
    """
    shares, clients = class_shares(truth, adversary)
    if len(clients) < LEAST_CLIENTS:
        raise CannotAttack(
            f"{len(clients)} clients train on labels; at least {LEAST_CLIENTS} are needed"
        )
    chosen = rng.permutation(len(clients))[:MANY_CLIENTS]
    above = shares[chosen] > np.median(shares, 0)
    free = rng.permutation(shares.shape[1])[:-1]
    ids = clients[chosen][:, None] * shares.shape[1] + free
    order = rng.permutation(ids.size)
    is_above = above[:, free].astype(np.int64).ravel()[order]
    rates = np.broadcast_to(above[:, free].mean(0), (len(chosen), len(free))).ravel()[order]
    if min(is_above.sum(), len(is_above) - is_above.sum()) < LEAST_OF_EACH:
        raise CannotAttack(
            f"{is_above.sum()} of {len(is_above)} shares are above the median; at least "
            f"{LEAST_OF_EACH} are needed above it, and as many not"
        )
    return BinaryGame(
        question=ClassRatios(ids=ids.ravel()[order]),
        metric="AUC over clients and classes: more of the class than the median client",
        unit="client",
        truth=is_above,
        prior_scores=rates if area_under_curve(is_above, rates) > 0.5 else None,
    )


FEWEST_OF_EACH = 5


@plays(TrainedClasses)
def trained_classes(
    truth: ForeignTruth, adversary: Adversary, rng: np.random.Generator
) -> BinaryGame:
    """Ask which classes are among a client's samples, of clients with few.

    Id k C + c stands for client k and class c. The prior is how many of the other clients have the
    class.
    """
    shares, clients = class_shares(truth, adversary)
    chosen = np.sort(rng.permutation(len(clients))[:MANY_CLIENTS])
    has = shares > 0
    present = has[chosen].astype(np.int64)
    if min(present.sum(), (1 - present).sum()) < FEWEST_OF_EACH:
        raise CannotAttack(
            f"{present.sum()} of {present.size} pairs of a client and a class have samples; at "
            f"least {FEWEST_OF_EACH} are needed with samples, and as many without"
        )
    others = has.sum(0) - present
    order = rng.permutation(present.size)
    ids = clients[chosen][:, None] * shares.shape[1] + np.arange(shares.shape[1])
    rates, is_present = others.ravel()[order].astype(np.float64), present.ravel()[order]
    return BinaryGame(
        question=TrainedClasses(ids=ids.ravel()[order]),
        metric="AUC over clients and classes: has a sample of the class",
        unit="client",
        truth=is_present,
        prior_scores=rates if area_under_curve(is_present, rates) > 0.5 else None,
    )


def class_shares(
    truth: Truth | ForeignTruth, adversary: Adversary
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return (clients, classes), the shares among each client's training labels, and the clients
    that have any."""
    if isinstance(truth, ForeignTruth):
        num_classes, by_client = truth.exchange.classes or 0, truth.labels
    else:
        num_classes, by_client = truth.graph.num_classes, _trained_labels(truth)
    clients = sorted(by_client.keys() - adversary.clients)
    counts = [np.bincount(by_client[client], minlength=num_classes) for client in clients]
    return np.array([c / c.sum() for c in counts]), np.array(clients, np.int64)


def _trained_labels(truth: Truth) -> dict[int, NDArray[np.int64]]:
    """Return the training labels of every client that has any."""
    labels_by_client = {}
    for shard in truth.experiment.shards:
        labels = shard.graph.labels[shard.graph.split.train].flatten().numpy()
        if (labels >= 0).any():
            labels_by_client[shard.client] = labels[labels >= 0]
    return labels_by_client
