"""A classifier for users with one node each, from one noisy sum by pseudo label.

The server has the graph and some labels; every user has one feature vector (nFedGNN's setting). The
server propagates the labels and tells every user its own pseudo label q_v. Each user answers once:

    1. q_v = sharpened propagation of the known labels, |q_v| <= 1      server, no user is asked
    2. M = sum over all users of x_v q_v^T,  |x_v| <= 1                 one masked, noisy sum
    3. P = class scores of features from M                              server, released
    4. user v predicts from  log q_v + w P^T x_v                        at home, never sent

One user moves M by |x_v| |q_v| <= 1, for any number of links and whatever q_v the server sends. The
noise for epsilon therefore does not grow with the graph, and all users speak, not only those whose
label is known. Epsilon covers a user's features. The server knows the graph and the labels, so no
epsilon covers these, and the claim per node is infinite.
"""

from __future__ import annotations

import torch
from torch import Tensor

from securefg.data.shard import clients_of, features_of
from securefg.federation.evaluation import LocalScore, score_clients
from securefg.federation.roles import Cohort, Host, PublicInfo, Server, Site, State, require_replies
from securefg.foundation.errors import ConfigError
from securefg.methods.base import Method
from securefg.methods.label_propagation.algorithm import LEAST, known_rows
from securefg.methods.nfedgnn.algorithm import places
from securefg.methods.pseudo_sums.settings import Settings
from securefg.models.appnp import propagate
from securefg.models.discriminant import class_scores
from securefg.models.gcn import normalized_adjacency
from securefg.privacy.influence import Fixed, Influence
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.bounds import reals
from securefg.protocol.codec import Turn
from securefg.protocol.meanings import Public, Statistic
from securefg.protocol.messages import Message, personal, private, public, round_number
from securefg.settings.execution import TrainingSettings

# ---------------------------------------------------------------------------------------- messages


class AskSums(Message, kind="pseudo_sums.AskSums"):
    """Tells every user its pseudo label, and asks for its part of the sum."""

    number: int = round_number()
    pseudo: Tensor = personal(
        "the user's class shares, propagated from known labels",
        means=Public("the graph and the known labels"),
        bounds=lambda s, p: reals((p.num_classes,), 0.0, 1.0),
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


def planned(
    settings: Settings, training: TrainingSettings, info: PublicInfo
) -> list[PlannedRelease]:
    """Return the one sum, to which every user contributes once."""
    if training.rounds != 1:
        raise ConfigError(
            f"training.rounds: found {training.rounds}; expected 1 for pseudo_sums. One sum "
            "determines the model, and a second round would only spend epsilon"
        )
    if info.num_clients != info.num_nodes:
        raise ConfigError(
            f"partition.name: found {info.num_clients} clients with {info.num_nodes} nodes; "
            "expected one node per client for pseudo_sums. Set partition.name: one_node"
        )
    return [
        PlannedRelease(
            ClassSums,
            "sums",
            count=1,
            dim=info.num_features * info.num_classes,
            norm=1.0,
            node=Influence(moved=Fixed(1.0)),
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
        self._shards, self._settings = site.shards, site.method
        classes = site.shards[0].graph.num_classes
        self._pseudo = torch.full((len(features), classes), 1 / classes, dtype=torch.float64)

    def handle(self, request: Message, turn: Turn) -> Message:
        """Return x_v q_v^T of every user that is asked."""
        assert isinstance(request, AskSums)
        users = places(self._clients, turn)
        self._pseudo[users] = request.pseudo.double()
        shares = unit_rows(self._pseudo[users])
        return ClassSums(sums=(self._rows[users][:, :, None] * shares[:, None, :]).float())

    def measure(self, release: Message) -> list[LocalScore]:
        """Predict at home, every user for its own node."""
        assert isinstance(release, Model)
        scores = self._rows @ release.projection.double()
        logits = self._pseudo.clamp_min(LEAST).log() + self._settings.feature_weight * scores
        graphs = [shard.graph for shard in self._shards]
        labels = torch.stack([graph.labels for graph in graphs])
        split = type(graphs[0].split)(
            *(
                torch.stack([getattr(graph.split, part) for graph in graphs])
                for part in ("train", "val", "test")
            )
        )
        return score_clients(self._clients.tolist(), logits[:, None, :], labels, split)

    def state(self) -> State:
        """Return the pseudo labels that users were told."""
        return {"pseudo": self._pseudo.clone()}

    def restore(self, state: State) -> None:
        """Take up what `state` gave."""
        self._pseudo = state["pseudo"]


# ------------------------------------------------------------------------------------------ server


def pseudo_labels(info: PublicInfo, settings: Settings) -> Tensor:
    """Return q, (N, C): propagated labels, sharpened; known labels as they are.

    A node that no label reaches has equal shares.
    """
    assert info.edge_index is not None
    assert info.known_labels is not None
    known = known_rows(info.known_labels, info.num_classes).double()
    adjacency = normalized_adjacency(info.edge_index, info.num_nodes)
    reached = propagate(adjacency, known.float(), settings.teleport, settings.steps).double()
    shares = _shares(_shares(reached) ** settings.sharpness)
    return torch.where(known.sum(1, keepdim=True) > 0, known, shares)


def _shares(scores: Tensor) -> Tensor:
    """Divide every row by its sum; equal shares where it is 0."""
    total = scores.sum(1, keepdim=True)
    return torch.where(total > LEAST, scores / total.clamp_min(LEAST), 1 / scores.shape[1])


class SumServer(Server):
    """Propagates labels, asks for one sum, and releases class scores of features."""

    def __init__(
        self, info: PublicInfo, settings: Settings, training: TrainingSettings, cohort: Cohort
    ) -> None:
        self._settings, self._cohort = settings, cohort
        self._pseudo = pseudo_labels(info, settings).float()
        self._shape = info.num_features, info.num_classes

    def round(self, number: int) -> Message:
        """Ask every user once, and compute P from the sum."""
        asked = self._cohort.ask(AskSums(number=number, pseudo=self._pseudo), ClassSums)
        replies = require_replies(asked, number)
        noise = self._cohort.noise_stddev(replies, "sums")
        sums = replies.sum("sums").double().reshape(self._shape)
        rates = self._settings.encoding == "rates"
        return Model(projection=class_scores(sums, noise, rates).float())

    def state(self) -> State:
        """Return nothing: there is one round."""
        return {}

    def restore(self, state: State) -> None:
        """One round: there is nothing between rounds."""


METHOD = Method(
    name="pseudo_sums",
    summary="users with one node each: one noisy sum by propagated labels; epsilon per features",
    settings=Settings,
    messages=(AskSums, ClassSums, Model),
    replies={AskSums: ClassSums},
    release=Model,
    planned=planned,
    make_host=Users,
    make_server=SumServer,
    batched=True,
    server_knows=frozenset({"graph", "labels"}),
    answers_shown=lambda settings: False,
)
