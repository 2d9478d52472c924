"""nFedGNN: every user is one node and keeps its feature vector to itself.

User i uploads x'_i = x_i W_i. The server, which has the graph and some labels, runs the rest of a
GCN or a GAT, updates its own weights, and returns dL/dx'_i. The user back-propagates and updates
W_i. A smoothness term pulls neighbours' latents together. CNFGNN, the paper's baseline, also sends
all W_i.

The server needs every single latent, so masking them is refused and noise is the defence. A GCN
without the smoothness term gets by with sums over closed neighbourhoods, and these can be masked
(`upload: neighbourhood_sums`). How many latents follow from the sums is among the run's facts.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from securefg.data.graph import Graph
from securefg.data.shard import clients_of, features_of
from securefg.federation.evaluation import Evaluator, Scores, score_logits
from securefg.federation.roles import Cohort, Host, PublicInfo, Server, Site, State, require_replies
from securefg.foundation.streams import torch_stream
from securefg.methods.base import Method, participants
from securefg.methods.nfedgnn.messages import (
    Call,
    CallParts,
    Latents,
    Learn,
    Learnt,
    Neighbours,
    Noted,
    Parts,
    Predictions,
    check_request,
    exposed_uploads,
    list_networks,
    plan_releases,
)
from securefg.methods.nfedgnn.settings import Settings
from securefg.models.latent_networks import LatentGat, LatentGcn, Smoothness
from securefg.models.neighbourhoods import Neighbourhoods, spread_latents
from securefg.models.optimizers import Adam
from securefg.models.user_init import private_rows, shared_rows, shared_weights
from securefg.models.user_weights import SparseFeatures, UserMatrices, UserRows
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.messages import Message
from securefg.secagg.recipient_sums import MIN_CONTRIBUTORS
from securefg.settings.execution import TrainingSettings
from securefg.settings.methods import MethodSettings

Ints = NDArray[np.int64]
NEIGHBOURS = ("whose", "weight")

# ---------------------------------------------------------------------------------------- users


class Users(Host):
    """A host of some of the users, as one tensor. Row i of everything is the i-th user of this
    host."""

    def __init__(
        self,
        features: SparseFeatures,
        clients: Ints,
        settings: Settings,
        training: TrainingSettings,
        seed: int,
    ) -> None:
        """Take `clients`, the users' numbers, ascending."""
        self._clients = clients
        if settings.init == "shared":
            weights = shared_rows(features, settings.width, seed)
        else:
            weights = private_rows(features, clients, settings.width, seed)
        self._neighbours: State = {}
        self._rows = UserRows(features, weights, training.lr, training.weight_decay)

    @classmethod
    def of(cls, site: Site[Settings]) -> Host:
        """Return the users of a host. With `average`, those of CNFGNN."""
        features, clients = features_of(site.shards).to(site.device), clients_of(site.shards)
        if site.method.average:
            return AveragedUsers(features, clients, site.method, site.training, site.seed)
        sparse = SparseFeatures.of(features)
        return cls(sparse, clients, site.method, site.training, site.seed)

    def handle(self, request: Message, turn: Turn) -> Message:
        """Send latents or parts of sums, note neighbours, or learn from gradients."""
        users = asked_places(self._clients, turn).to(self._rows.weights.device)
        if isinstance(request, Call):  # line 5: x'_i = f_u(x_i)
            latents = self._rows.latents()
            whole = len(users) == len(latents)
            return Latents(latent=latents if whole else latents[users])
        if isinstance(request, Neighbours):
            self._neighbours = {"whose": request.whose, "weight": request.weight}
            return Noted(number=turn.round)
        if isinstance(request, CallParts):
            return Parts(parts=self._sum_parts(users, request.num_nodes))
        assert isinstance(request, Learn)  # lines 11 and 12: the user's own gradient and step
        self._rows.step(users, request.gradient.to(users.device))
        return Learnt(number=turn.round, weights=None)

    def _sum_parts(self, users: Tensor, num_nodes: int) -> Tensor:
        latents = self._rows.latents()[users]
        whose, weight = (self._neighbours[name].to(users.device)[users] for name in NEIGHBOURS)
        return spread_latents(latents, whose, weight, num_nodes)

    def state(self) -> State:
        """Return all users' weights, their optimizer's state and their neighbours."""
        return {**self._rows.state(), **self._neighbours}

    def restore(self, state: State) -> None:
        """Take up what `state` gave."""
        self._rows.restore(state)
        self._neighbours = {name: state[name] for name in NEIGHBOURS if name in state}


class AveragedUsers(Host):
    """A host of users of CNFGNN: each goes on from the broadcast mean, and sends its whole
    matrix."""

    def __init__(
        self,
        features: Tensor,
        clients: Ints,
        settings: Settings,
        training: TrainingSettings,
        seed: int,
    ) -> None:
        self._clients = clients
        shared = shared_weights(features.shape[1], settings.width, seed).to(features.device)
        weights = shared.repeat(len(features), 1, 1)
        self._matrices = UserMatrices(features, weights, training.lr, training.weight_decay)

    def handle(self, request: Message, turn: Turn) -> Message:
        """Send latents, or learn and send weights to be averaged."""
        users = asked_places(self._clients, turn).to(self._matrices.weights.device)
        if isinstance(request, Call):
            if request.weights is not None:
                self._matrices.take(users, request.weights.to(users.device))
            return Latents(latent=self._matrices.latents()[users])
        assert isinstance(request, Learn)
        self._matrices.step(users, request.gradient.to(users.device))
        return Learnt(number=turn.round, weights=self._matrices.weights[users])

    def state(self) -> State:
        """Return all users' weights and their optimizer's state."""
        return self._matrices.state()

    def restore(self, state: State) -> None:
        """Take up what `state` gave."""
        self._matrices.restore(state)


def asked_places(clients: Ints, turn: Turn) -> Tensor:
    """Return which users of a host were asked."""
    return torch.from_numpy(np.searchsorted(clients, turn.clients.array()))


# --------------------------------------------------------------------------------------- server


class Network(Protocol):
    """A network of everything after the users' own layer."""

    parameters: list[Tensor]

    def logits(self, received: Tensor, stream: torch.Generator | None = None) -> Tensor:
        """Return class scores of every node from the received rows, a row per node. Dropout acts if
        a stream is given."""


def make_network(info: PublicInfo, settings: Settings) -> Network:
    """Return the part of the network that the server trains."""
    assert info.edge_index is not None
    sizes = (info.num_nodes, settings.width, info.num_classes)
    common = (settings.dropout, info.seed, info.device)
    if settings.network == "gat":
        return LatentGat(info.edge_index, sizes, settings.heads, *common)
    summed = settings.upload == "neighbourhood_sums"
    return LatentGcn(info.edge_index, sizes, *common, summed=summed)


class LatentServer(Server):
    """A server with its lines of Algorithm 1. `received` is a row per node: its latent, or its
    sum."""

    def __init__(
        self, info: PublicInfo, settings: Settings, training: TrainingSettings, cohort: Cohort
    ) -> None:
        assert info.edge_index is not None
        assert info.known_labels is not None
        self._info, self._settings, self._training = info, settings, training
        self._cohort = cohort
        device = info.device
        self._network = make_network(info, settings)
        self._smoothness = Smoothness(info.edge_index, info.num_nodes, device)
        self._train = (info.known_labels >= 0).nonzero().flatten().to(device)
        self._classes = info.known_labels.to(device)[self._train]
        own = self._network.parameters
        self._adam = Adam(own, [training.weight_decay] * len(own), training.lr)
        self._received = torch.zeros(info.num_nodes, settings.width, device=device)
        self._mean: Tensor | None = None
        self._sums: Neighbourhoods | None = None
        if settings.upload == "neighbourhood_sums":
            self._sums = Neighbourhoods(info.edge_index, info.num_nodes, MIN_CONTRIBUTORS)
        self._told = False

    def round(self, number: int) -> Predictions:
        """Gather latents, train the server's part, and send gradients back."""
        clients = participants(self._info, self._training, number)
        replied = self._gather_latents(number, clients)  # lines 4 to 7
        gradient = self._learn_step(number)  # lines 8 and 9
        users = torch.from_numpy(replied.array()).to(gradient.device)
        learnt = self._cohort.ask(Learn(gradient=gradient[users].cpu()), Learnt, replied)
        if self._settings.average and learnt.count:
            self._mean = learnt.mean("weights")
        with torch.no_grad():
            return Predictions(logits=self._network.logits(self._received).cpu())

    def _gather_latents(self, number: int, clients: Clients) -> Clients:
        """Bring `received` up to date. Return who took part."""
        if self._sums is not None:
            return self._gather_sums(self._sums, number, clients)
        call = Call(number=number, weights=self._mean)
        replies = require_replies(self._cohort.ask(call, Latents, clients), number)
        if self._settings.missing == "zero":
            self._received = torch.zeros_like(self._received)
        users = torch.from_numpy(replies.clients.array()).to(self._received.device)
        self._received[users] = replies.each("latent").to(self._received)
        return replies.clients

    def _gather_sums(self, sums: Neighbourhoods, number: int, clients: Clients) -> Clients:
        if not self._told:
            whose, weight = sums.of_each()
            self._cohort.ask(Neighbours(whose=whose, weight=weight), Noted)
            self._told = True
        call = CallParts(number=number, num_nodes=self._info.num_nodes)
        replies = require_replies(self._cohort.ask(call, Parts, clients), number)
        self._received = replies.sum("parts").to(self._received)
        return replies.clients

    def _learn_step(self, number: int) -> Tensor:
        """Take one step of the server's own weights. Return dL/dx' for all users."""
        received = self._received.clone().requires_grad_()
        stream = torch_stream(self._info.seed, "dropout", number, device=str(received.device))
        logits = self._network.logits(received, stream)
        loss = cross_entropy(logits[self._train], self._classes)
        if self._settings.smoothness:
            loss = loss + self._settings.smoothness * self._smoothness(received)
        gradient, *own = torch.autograd.grad(loss, (received, *self._network.parameters))
        self._adam.step(own)
        if self._sums is None:
            return gradient
        return self._sums.back(gradient)  # dL/dz_j = sum_i A_hat_ij dL/ds_i

    def facts(self) -> dict[str, float]:
        """Return figures about the sums, for the summary."""
        return {} if self._sums is None else self._sums.facts()

    def state(self) -> State:
        """Return the weights, the optimizer's state, and what users sent so far."""
        own = {f"own.{i}": w.detach().clone() for i, w in enumerate(self._network.parameters)}
        mean = {} if self._mean is None else {"mean": self._mean.clone()}
        so_far = {"received": self._received.clone(), "told": torch.tensor(self._told)}
        return {**own, **mean, **so_far, **self._adam.state()}

    def restore(self, state: State) -> None:
        """Take up what `state` gave."""
        with torch.no_grad():
            for i, weights in enumerate(self._network.parameters):
                weights.copy_(state[f"own.{i}"])
        self._received = state["received"].to(self._received)
        self._told = bool(state["told"])
        self._mean = state.get("mean")
        self._adam.restore(state)


# ----------------------------------------------------------------------------------- evaluation


class NodeGoal(Evaluator):
    """A goal: the server's predictions on the held-out nodes."""

    def __init__(self, graph: Graph, settings: MethodSettings, device: torch.device) -> None:
        self._graph = graph

    def score(self, release: Message) -> Scores:
        """Score the released predictions over the graph's split."""
        assert isinstance(release, Predictions)
        return score_logits(release.logits, self._graph.labels, self._graph.split)

    def answers(self, release: Message) -> Tensor:
        """Return the released predictions."""
        assert isinstance(release, Predictions)
        return release.logits


METHOD = Method(
    name="nfedgnn",
    summary="every user is one node; users upload latents, the server runs the rest of a GNN",
    settings=Settings,
    messages=(Call, Latents, Neighbours, Noted, CallParts, Parts, Learn, Learnt, Predictions),
    replies={Call: Latents, Neighbours: Noted, CallParts: Parts, Learn: Learnt},
    check=check_request,
    release=Predictions,
    networks=list_networks,
    planned=plan_releases,
    make_host=Users.of,
    make_server=LatentServer,
    make_evaluator=NodeGoal,
    batched=True,
    server_knows=frozenset({"graph", "labels"}),
    exposed_uploads=exposed_uploads,
)
