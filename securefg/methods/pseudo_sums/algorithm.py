"""A classifier for users with one node each, from one noisy sum by pseudo label.

The server has the graph and some labels; every user has one feature vector (nFedGNN's setting). The
server propagates the labels and tells every user its own pseudo label q_v. Each user answers once
in a round:

    1. q_v = sharpened propagation of the known labels                  server, no user is asked
    2. M = sum over all users of x_v r_v^T,  |x_v| <= 1, |r_v| <= 1     one masked, noisy sum
    3. P = class scores of features from M                              server, released
    4. user v predicts from  log q_v + w P^T x_v                        at home, never sent

In the first round r_v = q_v. In later rounds, if there are any, the rounds share the budget, and by
the P of the round before r_v is the user's own prediction, or with `later_rounds: residuals`

    r_v = q_v - softmax(P^T x_v),   and P moves by  C/2 M / (a feature's total + smoothing)

One user moves M by |x_v| |r_v| <= 1, for any number of links and whatever q_v and P the server
sends. The noise for epsilon therefore does not grow with the graph, and all users speak, not only
those whose label is known. Epsilon covers a user's features. The server knows the graph and the
labels, so no epsilon covers these, and the claim per node is infinite.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from securefg.data.shard import clients_of, features_of, node_ids_of
from securefg.federation.evaluation import LocalScore, score_clients
from securefg.federation.roles import Cohort, Host, PublicInfo, Server, Site, State, require_replies
from securefg.foundation.errors import ConfigError
from securefg.methods.base import Method, Scene, Suit, require_all_clients
from securefg.methods.pseudo_sums.settings import Settings
from securefg.models.appnp import propagate_hidden
from securefg.models.discriminant import PSEUDO_COUNT, class_scores
from securefg.models.gcn import normalized_adjacency
from securefg.models.graph_coordinates import (
    multiply_shares,
    regress_classes,
    spectral_coordinates,
)
from securefg.privacy.influence import Fixed, Influence
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.bounds import reals
from securefg.protocol.codec import Turn
from securefg.protocol.meanings import Public, Statistic
from securefg.protocol.messages import Message, personal, private, public, round_number
from securefg.settings.execution import TrainingSettings

LEAST = 1e-12
"""A class that no known label reaches keeps this share."""

LEAST_RATIO = 3.0
"""Signal over noise of the sum over all users, below which plans advise against a run."""

STEP = 0.5
LEAST_TOTAL = 10.0
"""Length of a step along residuals, and what a feature's total is smoothed by beside the noise."""

# ---------------------------------------------------------------------------------------- messages


class AskSums(Message, kind="pseudo_sums.AskSums"):
    """Tells every user its pseudo label, and asks for its part of the sum."""

    number: int = round_number()
    pseudo: Tensor = personal(
        "the user's class shares, propagated from known labels",
        means=Public("the graph and the known labels"),
        bounds=lambda s, p: reals((p.num_classes,), 0.0, 1.0),
    )
    projection: Tensor | None = public(
        "P of the round before; none in the first round",
        means=Statistic("features", "by_class"),
        bounds=lambda s, p: reals((p.num_features, p.num_classes)),
    )


class ClassSums(Message, kind="pseudo_sums.ClassSums"):
    """A user's part of M."""

    sums: Tensor = private(
        "sum",
        "features of the users, summed by pseudo label",
        means=Statistic("features", "by_class"),
    )


class Model(Message, kind="pseudo_sums.Model"):
    """P, from which every user predicts at home."""

    projection: Tensor = public(
        "P: features to class scores",
        means=Statistic("features", "by_class"),
        bounds=lambda s, p: reals((p.num_features, p.num_classes)),
    )


def plan_releases(
    settings: Settings, training: TrainingSettings, info: PublicInfo
) -> list[PlannedRelease]:
    """Return the sum, to which every user contributes once in a round."""
    require_all_clients("pseudo_sums", training)
    if info.num_clients != info.num_nodes:
        raise ConfigError(
            f"partition.name: found {info.num_clients} clients with {info.num_nodes} nodes; "
            "expected one node per client for pseudo_sums. Set partition.name: one_node"
        )
    return [
        PlannedRelease(
            ClassSums,
            "sums",
            count=training.rounds,
            dim=info.num_features * info.num_classes,
            norm=1.0,
            node=Influence(moved=Fixed(1.0)),
            unlabelled=True,
            steered=True,
        )
    ]


# ------------------------------------------------------------------------------------------- users


def unit_rows(rows: Tensor) -> Tensor:
    """Scale every row that is longer than 1 to length 1."""
    scaled: Tensor = rows / rows.norm(dim=1, keepdim=True).clamp_min(1.0)
    return scaled


class Users(Host):
    """Some of the users, as one tensor. Row i of everything is the i-th user of this host."""

    def __init__(self, site: Site[Settings]) -> None:
        features = features_of(site.shards).double()
        if features.dim() != 2:
            raise ConfigError("data.name: found several samples per node; expected one per user")
        self._rows = features / features.norm(dim=1, keepdim=True).clamp_min(1e-12)
        self._clients = clients_of(site.shards)
        if not np.array_equal(node_ids_of(site.shards).numpy(), self._clients):
            raise ConfigError(
                "partition.name: found users that hold other nodes than their own; expected node k "
                "with client k for pseudo_sums. Set partition.name: one_node"
            )
        self._shards, self._settings = site.shards, site.method
        classes = site.shards[0].graph.num_classes
        self._pseudo = torch.full((len(features), classes), 1 / classes, dtype=torch.float64)

    def handle(self, request: Message, turn: Turn) -> Message:
        """Return x_v r_v^T of every user that is asked."""
        assert isinstance(request, AskSums)
        users = torch.from_numpy(np.searchsorted(self._clients, turn.clients.array()))
        self._pseudo[users] = request.pseudo.double()
        shares = self._pseudo[users]
        if request.projection is not None:
            shares = self._later_shares(request.projection, users)
        rows, shares = self._rows[users].float(), unit_rows(shares).float()
        return ClassSums(sums=rows[:, :, None] * shares[:, None, :])

    def _later_shares(self, projection: Tensor, users: Tensor) -> Tensor:
        """Return what users contribute by once they have a P."""
        if self._settings.later_rounds == "predictions":
            return self._compute_logits(projection, users).softmax(1)
        guessed = (self._rows[users] @ projection.double()).softmax(1)
        residuals: Tensor = self._pseudo[users] - guessed
        return residuals

    def _compute_logits(self, projection: Tensor, users: Tensor) -> Tensor:
        """Return log q_v + w P^T x_v."""
        scores = self._rows[users] @ projection.double()
        weighted: Tensor = self._settings.feature_weight * scores
        return self._pseudo[users].clamp_min(LEAST).log() + weighted

    def measure(self, release: Message) -> list[LocalScore]:
        """Predict at home, every user for its own node."""
        return self._score_users(release, at_end=False)

    def measure_at_end(self, release: Message) -> list[LocalScore]:
        """Predict at home, and count by class."""
        return self._score_users(release, at_end=True)

    def _score_users(self, release: Message, at_end: bool) -> list[LocalScore]:
        assert isinstance(release, Model)
        logits = self._compute_logits(release.projection, torch.arange(len(self._rows)))
        graphs = [shard.graph for shard in self._shards]
        labels = torch.stack([graph.labels for graph in graphs])
        split = type(graphs[0].split)(
            *(
                torch.stack([getattr(graph.split, part) for graph in graphs])
                for part in ("train", "val", "test")
            )
        )
        clients = self._clients.tolist()
        return score_clients(clients, logits[:, None, :], labels, split, at_end=at_end)

    def state(self) -> State:
        """Return the pseudo labels that users were told."""
        return {"pseudo": self._pseudo.clone()}

    def restore(self, state: State) -> None:
        """Take up what `state` gave."""
        self._pseudo = state["pseudo"]


# ------------------------------------------------------------------------------------------ server


@lru_cache(maxsize=2)
def pseudo_labels(info: PublicInfo, settings: Settings) -> Tensor:
    """Return q, (N, C): propagated labels, sharpened; known labels as they are.

    A node that no label reaches has equal shares. With `coordinates`, the geometric mean of
    propagated shares and those of a regression on spectral coordinates is sharpened. Audits build
    the server of a run many times, so the last results are kept.
    """
    assert info.edge_index is not None
    assert info.known_labels is not None
    is_known = (info.known_labels >= 0)[:, None]
    known = one_hot(info.known_labels.clamp_min(0), info.num_classes).double() * is_known
    adjacency = normalized_adjacency(info.edge_index, info.num_nodes)
    reached = propagate_hidden(adjacency, known.float(), settings.teleport, settings.steps).double()
    shares, power = _to_shares(reached), settings.sharpness
    if settings.coordinates:
        coordinates = settings.coordinates, settings.teleport
        rows = spectral_coordinates(info.edge_index, info.num_nodes, *coordinates)
        regressed = regress_classes(rows, info.known_labels, info.num_classes)
        shares, power = multiply_shares(shares, regressed), power / 2
    shares = _to_shares(shares**power)
    return torch.where(is_known, known, shares)


def _to_shares(scores: Tensor) -> Tensor:
    """Divide every row by its sum; equal shares where it is 0."""
    total = scores.sum(1, keepdim=True)
    return torch.where(total > LEAST, scores / total.clamp_min(LEAST), 1 / scores.shape[1])


class SumServer(Server):
    """Propagates labels, asks for one sum a round, and releases class scores of features."""

    def __init__(
        self, info: PublicInfo, settings: Settings, training: TrainingSettings, cohort: Cohort
    ) -> None:
        self._settings, self._cohort = settings, cohort
        self._pseudo = pseudo_labels(info, settings).float()
        self._shape = info.num_features, info.num_classes
        self._projection: Tensor | None = None
        self._totals: Tensor | None = None

    def round(self, number: int) -> Message:
        """Ask every user once, and compute P from the sum."""
        request = AskSums(number=number, pseudo=self._pseudo, projection=self._projection)
        replies = require_replies(self._cohort.ask(request, ClassSums), number)
        noise = self._cohort.noise_stddev(replies, "sums")
        sums = replies.sum("sums").double().reshape(self._shape)
        if self._settings.later_rounds == "residuals":
            self._projection = self._improve_projection(sums, noise)
        else:
            rates = self._settings.encoding == "rates"
            self._projection = class_scores(sums, noise, rates).float()
        return Model(projection=self._projection)

    def _improve_projection(self, sums: Tensor, noise: float) -> Tensor:
        """Return P after a step along the sum, each feature at the rate that its total allows. The
        first sum holds the totals."""
        num_classes = sums.shape[1]
        if self._totals is None:
            self._totals = sums.sum(1, keepdim=True).clamp_min(0)
            expected = self._totals * sums.sum(0) / sums.sum().clamp_min(LEAST)
        else:
            expected = sums.mean(1, keepdim=True)
        smoothing = PSEUDO_COUNT * noise * math.sqrt(num_classes) + LEAST_TOTAL
        step: Tensor = STEP * num_classes * (sums - expected) / (self._totals + smoothing)
        if self._projection is not None:
            step = step + self._projection.double()
        return step.float()

    def state(self) -> State:
        """Return P and the features' totals, which the next round needs."""
        kept = {"projection": self._projection, "totals": self._totals}
        return {name: value.clone() for name, value in kept.items() if value is not None}

    def restore(self, state: State) -> None:
        """Take up what `state` gave."""
        self._projection, self._totals = state.get("projection"), state.get("totals")


def suits_scene(scene: Scene) -> Suit | None:
    """Suit users with one node each. All of them contribute, labelled or not."""
    if scene.unit != "features" or scene.num_clients != scene.num_nodes:
        return None
    if scene.lowest_ratio < LEAST_RATIO:
        return None
    return Suit(
        1,
        "every user has one node, and with all users the sum stands "
        f"{scene.lowest_ratio:.1f} times above its noise. The server must hold the "
        "graph and some labels",
    )


METHOD = Method(
    name="pseudo_sums",
    summary="users with one node each: one noisy sum by propagated labels; epsilon per features",
    settings=Settings,
    messages=(AskSums, ClassSums, Model),
    replies={AskSums: ClassSums},
    release=Model,
    planned=plan_releases,
    make_host=Users,
    make_server=SumServer,
    batched=True,
    server_knows=frozenset({"graph", "labels"}),
    answers_shown=lambda settings: False,
    suits=suits_scene,
)
