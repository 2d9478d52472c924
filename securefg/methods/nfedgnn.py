"""nFedGNN: every user is one node and keeps its feature vector to itself.

User i uploads x'_i = x_i W_i; the server, which has the graph and some labels, runs the rest of a
GCN, updates its own weights, and returns dL/dx'_i; the user back-propagates and updates W_i. A
smoothness term pulls neighbours' latents together. The server needs every single latent, so masking
is refused and noise is the defence.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import cross_entropy

from securefg.channel import Turn
from securefg.data.graph import Graph
from securefg.evaluation import Evaluator, Scores, score_logits
from securefg.federation import require_replies
from securefg.messages import Message, personal, private, public
from securefg.models.adam import Adam
from securefg.models.gcn import keep_mask, normalized_adjacency
from securefg.models.user_rows import UserRows
from securefg.privacy.policy import PlannedRelease
from securefg.roles import (
    Cohort,
    Host,
    Method,
    MethodSettings,
    PublicInfo,
    Server,
    Site,
    State,
    sample_clients,
)
from securefg.streams import torch_stream


class Settings(MethodSettings):
    """The paper's GCN; `smoothness` is its lambda."""

    name: Literal["nfedgnn"] = "nfedgnn"
    hidden: int = Field(16, ge=1)
    dropout: float = Field(0.5, ge=0, lt=1, description="on the server; users have none")
    smoothness: float = Field(1.0, ge=0, description="lambda: weight of the regulariser")
    init: Literal["shared", "private"] = Field(
        "shared", description="all W_i start alike, or each user draws its own"
    )
    missing: Literal["keep", "zero"] = Field(
        "keep", description="a user that did not reply: its last latent counts, or none"
    )


# ------------------------------------------------------------------------------------- messages


class Call(Message):
    """Asks for latents."""

    number: int = public("the round")


class Latents(Message):
    latent: Tensor = private("each", "features times the user's own weights")


class Learn(Message):
    gradient: Tensor = personal("derivative of the loss by the user's latent")


class Learnt(Message):
    number: int = public("the round")


class Predictions(Message):
    """What the server releases: its view of every node."""

    logits: Tensor = public("class scores per node")


def planned(settings: Settings, training: Any, info: PublicInfo) -> list[PlannedRelease]:
    return [PlannedRelease(Latents, "latent", training.rounds, settings.hidden)]


# ---------------------------------------------------------------------------------------- users


class Users(Host):
    """Some of the users, as one tensor. Row i of everything is the i-th user of this host."""

    def __init__(self, site: Site) -> None:
        settings: Settings = site.method
        features = torch.cat([shard.graph.features for shard in site.shards]).to(site.device)
        self._clients = torch.tensor([shard.client for shard in site.shards])
        weights = _initial_weights(settings, site, features)
        training = site.training
        self._rows = UserRows(features, weights, training.lr, training.weight_decay)

    def handle(self, request: Message, turn: Turn) -> Message:
        asked = torch.tensor(turn.clients.numbers())
        users = torch.searchsorted(self._clients, asked).to(self._rows.weights.device)
        if isinstance(request, Call):
            return Latents(latent=self._rows.latents()[users])
        assert isinstance(request, Learn)
        self._rows.step(users, request.gradient.to(users.device))
        return Learnt(number=turn.round)

    def state(self) -> State:
        return self._rows.state()

    def restore(self, state: State) -> None:
        self._rows.restore(state)


def _initial_weights(settings: Settings, site: Site, features: Tensor) -> Tensor:
    """Glorot-uniform rows for the users' non-zero features; of one matrix, or of one each."""
    num_features = features.shape[1]
    bound = (6 / (num_features + settings.hidden)) ** 0.5
    shape = (num_features, settings.hidden)
    user, feature = features.nonzero(as_tuple=True)
    if settings.init == "shared":
        drawn = torch.rand(shape, generator=torch_stream(site.seed, "weights"))[feature.cpu()]
    else:
        drawn = torch.cat(
            [
                torch.rand(shape, generator=torch_stream(site.seed, "weights", shard.client))[
                    feature[user == i].cpu()
                ]
                for i, shard in enumerate(site.shards)
            ]
        )
    weights: Tensor = (2 * drawn - 1) * bound
    return weights.to(features.device)


# --------------------------------------------------------------------------------------- server


class GcnServer(Server):
    """Everything after the users' own layer: A_hat, ReLU, dropout, and the second layer."""

    def __init__(self, info: PublicInfo, settings: Settings, training: Any, cohort: Cohort) -> None:
        assert info.edge_index is not None
        assert info.known_labels is not None
        self._info, self._settings, self._training = info, settings, training
        self._cohort = cohort
        device = info.device
        self._ends = info.edge_index.to(device)
        self._adjacency = normalized_adjacency(info.edge_index, info.num_nodes).to(device)
        self._train = (info.known_labels >= 0).nonzero().flatten().to(device)
        self._classes = info.known_labels.to(device)[self._train]
        bound = (6 / (settings.hidden + info.num_classes)) ** 0.5
        uniform = torch.rand(
            settings.hidden, info.num_classes, generator=torch_stream(info.seed, "weights")
        )
        self._weights = ((2 * uniform - 1) * bound).to(device).requires_grad_()
        self._adam = Adam([self._weights], [training.weight_decay], training.lr)
        self._latents = torch.zeros(info.num_nodes, settings.hidden, device=device)

    def round(self, number: int) -> Predictions:
        clients = sample_clients(
            self._info.num_clients,
            self._training.participation,
            torch_stream(self._info.seed, "participation", number),
        )
        replies = require_replies(self._cohort.ask(Call(number=number), Latents, clients), number)
        users = torch.tensor(replies.clients.numbers(), device=self._latents.device)
        if self._settings.missing == "zero":
            self._latents = torch.zeros_like(self._latents)
        self._latents[users] = replies.each("latent").to(self._latents)
        gradient = self._learn(number)
        self._cohort.ask(Learn(gradient=gradient[users].cpu()), Learnt, replies.clients)
        with torch.no_grad():
            return Predictions(logits=self._logits(self._latents, None).cpu())

    def _learn(self, number: int) -> Tensor:
        """One step of the server's own weights; returns dL/dx' for all users."""
        latents = self._latents.clone().requires_grad_()
        stream = torch_stream(self._info.seed, "dropout", number, device=str(latents.device))
        logits = self._logits(latents, stream)
        loss = cross_entropy(logits[self._train], self._classes)
        if self._settings.smoothness:
            source, target = latents[self._ends[0]], latents[self._ends[1]]
            loss = loss + self._settings.smoothness * (source - target).square().sum(1).mean()
        gradient, own = torch.autograd.grad(loss, (latents, self._weights))
        self._adam.step([own])
        return gradient

    def _logits(self, latents: Tensor, stream: torch.Generator | None) -> Tensor:
        hidden = torch.relu(self._adjacency @ latents)
        if stream is not None:
            hidden = hidden * keep_mask(hidden.shape, self._settings.dropout, stream)
        scores: Tensor = self._adjacency @ (hidden @ self._weights)
        return scores

    def state(self) -> State:
        own = {"own": self._weights.detach().clone(), "latents": self._latents.clone()}
        return {**own, **self._adam.state()}

    def restore(self, state: State) -> None:
        with torch.no_grad():
            self._weights.copy_(state["own"])
        self._latents = state["latents"].to(self._latents)
        self._adam.restore(state)


# ----------------------------------------------------------------------------------- evaluation


class NodeGoal(Evaluator):
    """The server's predictions on the held-out nodes."""

    def __init__(self, graph: Graph, settings: Settings, device: torch.device) -> None:
        self._graph = graph

    def score(self, release: Message) -> Scores:
        assert isinstance(release, Predictions)
        return score_logits(release.logits, self._graph.labels, self._graph.split)


METHOD = Method(
    name="nfedgnn",
    summary="every user is one node; users upload latents, the server runs the rest of a GCN",
    settings=Settings,
    messages=(Call, Latents, Learn, Learnt, Predictions),
    planned=planned,
    make_host=Users,
    make_server=GcnServer,
    make_evaluator=NodeGoal,
    batched=True,
    server_knows=frozenset({"graph", "labels"}),
)
