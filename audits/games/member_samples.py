"""The game about membership of single samples, where every client is a node."""

from __future__ import annotations

import numpy as np

from attacks.base import CannotAttack
from attacks.questions import MemberSamples
from audits.games.base import plays
from audits.games.membership import LEAST_TARGETS, MembershipGame
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

MANY_SAMPLES = 2000


@plays(MemberSamples)
def member_samples(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> MembershipGame:
    """Ask which samples were trained on, of training samples and as many test samples.

    Samples that belong to nodes as a whole share the node's label and its part of the split. There
    are as many of either side of every class, so that a class says nothing by itself.
    """
    graph, features = truth.graph, truth.features()
    if truth.experiment.public.num_clients != graph.num_nodes:
        raise CannotAttack("clients hold several nodes: membership of nodes is asked instead")
    told = truth.experiment.public.trainers is not None and graph.split.train.dim() == 1
    if adversary.kind == "server" and told:
        raise CannotAttack("the server is told which clients train: membership is no secret to it")
    samples = features if features.ndim == 3 else features[:, None]
    num_nodes, each = samples.shape[:2]
    clients = np.repeat(np.arange(num_nodes), each)

    def spread(values: np.ndarray) -> np.ndarray:
        return np.broadcast_to(values.reshape(num_nodes, -1), (num_nodes, each)).reshape(-1)

    labels = spread(graph.labels.numpy())
    train, test = spread(graph.split.train.numpy()), spread(graph.split.test.numpy())
    theirs = ~np.isin(clients, sorted(adversary.clients))
    chosen = _balance_samples(labels, train & theirs, test & theirs, rng)
    return MembershipGame(
        question=MemberSamples(
            ids=chosen,
            samples=samples.reshape(num_nodes * each, -1)[chosen],
            labels=labels[chosen],
            clients=clients[chosen],
        ),
        metric="AUC over training and test samples",
        unit="sample",
        truth=train[chosen].astype(np.int64),
    )


def _balance_samples(
    labels: np.ndarray, train: np.ndarray, test: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return as many training as test samples of every class, in random order, not too many."""
    sides: list[np.ndarray] = []
    for label in np.unique(labels):
        both = [rng.permutation(np.flatnonzero((labels == label) & side)) for side in (train, test)]
        count = min(map(len, both))
        sides += [side[:count] for side in both]
    ids = np.concatenate(sides) if sides else np.zeros(0, np.int64)
    if len(ids) < LEAST_TARGETS:
        raise CannotAttack(f"{len(ids)} targets; at least {LEAST_TARGETS} are needed")
    return rng.permutation(ids)[:MANY_SAMPLES]
