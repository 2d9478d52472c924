"""Games about membership: was a node's label in the training set?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack
from attacks.questions import Membership, OthersMembers, Shadows
from audits import metrics
from audits.games.base import BinaryGame, plays
from audits.shadows import shadows_for
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

LEAST_TARGETS = 20
FALSE_POSITIVE_RATES = {"tpr_at_1_percent_fpr": 0.01, "tpr_at_0.1_percent_fpr": 0.001}


@dataclass(frozen=True)
class MembershipGame(BinaryGame):
    """A game about membership in the training set."""

    def extras(self, guess: Array) -> dict[str, float]:
        """Return true positive rates at low false ones, where there are targets enough."""
        extra_metrics = {}
        for name, rate in FALSE_POSITIVE_RATES.items():
            try:
                extra_metrics[name] = metrics.tpr_at_fpr(self.truth, guess, rate).value
            except metrics.Unresolved:
                continue
        return extra_metrics


@plays(Membership)
def membership(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> MembershipGame:
    """Ask whether a node's label was in the training set, of training nodes and as many test nodes.

    There are as many of every class, so that a label says nothing by itself. The prior is what the
    adversary's own shadow models say of a target that they did not train on: how easy a node is,
    without the run. If that is no better than chance, chance is the prior.
    """
    experiment, graph = truth.experiment, truth.graph
    if adversary.kind == "server" and experiment.public.known_labels is not None:
        raise CannotAttack("the server is given the training labels: membership is no secret to it")
    several = graph.features.dim() != 2 and truth.config.audit.shadows == "model"
    if graph.labels.dim() != 1 or several:
        raise CannotAttack("nodes hold several samples each; the shadow models want one")
    if truth.answers is None:
        raise CannotAttack("the run released no model that answers for nodes")
    labels, train = graph.labels.numpy(), graph.split.train.numpy().copy()
    if experiment.canaries is not None:  # made to be remembered: they have an audit of their own
        train[experiment.canaries.nodes.numpy()] = False
    chosen = balance_nodes(labels, train, graph.split.test.numpy(), rng)
    shadows = shadows_for(truth, chosen)
    is_member = train[chosen].astype(np.int64)
    return MembershipGame(
        question=Membership(
            ids=chosen,
            labels=labels[chosen],
            shadows=shadows,
            known_ids=np.arange(graph.num_nodes),
            known=truth.features(),
            edges=graph.edge_index.numpy(),
        ),
        metric="AUC over training and test nodes",
        unit="label of a node",
        truth=is_member,
        prior_scores=shadow_easiness(shadows, is_member),
    )


def balance_nodes(
    labels: NDArray[np.int64],
    train: NDArray[np.bool_],
    test: NDArray[np.bool_],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Return as many training as test nodes of every class, in random order.

    The choice depends on the data alone, so that all adversaries' games share their shadows.
    """
    fixed, chosen = np.random.default_rng(0), []
    for label in np.unique(labels):
        sides = [
            fixed.permutation(np.flatnonzero((labels == label) & side)) for side in (train, test)
        ]
        chosen += [side[: min(map(len, sides))] for side in sides]
    ids = np.concatenate(chosen)
    if len(ids) < LEAST_TARGETS:
        raise CannotAttack(f"{len(ids)} targets; at least {LEAST_TARGETS} are needed")
    return rng.permutation(ids)


def shadow_easiness(shadows: Shadows, truth: NDArray[np.int64]) -> Array | None:
    """Return the mean confidence of the shadows that did not train on a target, if it tells
    anything."""
    outside = ~shadows.member
    scores: Array = np.where(outside, shadows.confidence, 0).sum(0) / outside.sum(0).clip(1)
    return scores if metrics.area_under_curve(truth, scores) > 0.5 else None


MANY_OTHERS = 120


@plays(OthersMembers)
def others_members(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> MembershipGame:
    """Ask a client which labels others train on, of their training nodes and as many test nodes.

    There are as many of every class. The client holds none of them, and knows the graph, features
    and labels, as in the game of membership. The prior is chance, so that a model need not be there
    before the game.
    """
    graph, shards = truth.graph, truth.experiment.shards
    if graph.labels.dim() != 1:
        raise CannotAttack("nodes hold several samples each: a node has no one label")
    own = [shards[k].node_ids.numpy() for k in sorted(adversary.clients)]
    theirs = ~np.isin(np.arange(graph.num_nodes), np.concatenate([*own, np.zeros(0, np.int64)]))
    labels, train = graph.labels.numpy(), graph.split.train.numpy()
    ids = balance_nodes(labels, train & theirs, graph.split.test.numpy() & theirs, rng)[
        :MANY_OTHERS
    ]
    return MembershipGame(
        question=OthersMembers(
            ids=ids,
            labels=labels[ids],
            known_ids=np.arange(graph.num_nodes),
            known=truth.features(),
            edges=graph.edge_index.numpy(),
        ),
        metric="AUC over others' training nodes and test nodes",
        unit="label of a node",
        truth=train[ids].astype(np.int64),
    )
