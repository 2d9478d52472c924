"""Every party trains by itself: nothing is exchanged, so nothing leaks and nothing is gained.

This is FedGL's baseline "Local". With `centralised: true`, where one party holds what all hold
together, it is "Centralized". With other networks it is the table of centralised baselines of
GFL-APPNP's paper.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from securefg.data.graph import Graph
from securefg.federation.evaluation import LocalScore, score_locally
from securefg.federation.roles import Cohort, Host, PublicInfo, Server, Site, State
from securefg.foundation.errors import ConfigError
from securefg.foundation.streams import torch_stream
from securefg.methods.alone.settings import Settings
from securefg.methods.base import Method
from securefg.models.classifiers import Appnp, Gcn, GraphSage, Mlp
from securefg.models.gat import Gat
from securefg.models.network import Network, draw_glorot, split_vector
from securefg.models.training import Trainer, class_weights
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.codec import Turn
from securefg.protocol.messages import Message, round_number
from securefg.settings.execution import TrainingSettings
from securefg.settings.methods import MethodSettings


def build_network(settings: Settings, graph: Graph, device: torch.device) -> Network:
    """Return the network that the settings name, on a graph with one sample per node."""
    if graph.features.dim() != 2:
        raise ConfigError(
            f"method.name: alone wants one sample per node, found {graph.features.shape[1]}; "
            "allowed for several: mlps, fedmlp"
        )
    match settings.network:
        case "gcn":
            return Gcn(graph, settings.hidden, device)
        case "gat":
            linear = settings.readout == "linear"
            return Gat(graph, settings.hidden, settings.heads, linear, device)
        case "graphsage":
            return GraphSage(graph, settings.hidden, device)
        case "appnp":
            return Appnp(graph, settings.hidden, settings.teleport, settings.steps, device)
        case "mlp":
            return Mlp(graph, settings.hidden, device)


class Go(Message, kind="alone.Go"):
    """A request to train for a round."""

    number: int = round_number()


class Done(Message, kind="alone.Done"):
    """A reply that training is done. Nothing else is said."""

    number: int = round_number()


class Party(Host):
    """A party with its own model and optimizer, kept over all rounds.

    It keeps the weights with the best validation score of its own, as anyone alone would.
    """

    def __init__(self, site: Site[Settings]) -> None:
        (self._shard,) = site.shards
        self._settings: Settings = site.method
        self._training, self._seed, self._device = site.training, site.seed, site.device
        graph = self._shard.graph
        self._network = build_network(self._settings, graph, site.device)
        self._train = graph.split.train.nonzero().flatten().to(site.device)
        self._classes = graph.labels.to(site.device)[self._train]
        self._weights = class_weights(self._classes, graph.num_classes, site.training)
        initial = draw_glorot(
            self._network.shapes, torch_stream(site.seed, "weights", self._shard.client)
        )
        self._trainer = Trainer(
            self._network,
            initial.to(site.device),
            self._settings.optimizer,
            self._training.lr,
            self._training.weight_decay,
        )
        self._best, self._best_score = self._trainer.vector(), -math.inf

    def handle(self, request: Message, turn: Turn) -> Message:
        """Train for a round on the own graph."""
        assert isinstance(request, Go)
        stream = torch_stream(
            self._seed, "dropout", self._shard.client, turn.round, device=str(self._device)
        )
        self._trainer.train(
            self._training.local_epochs,
            self._train,
            self._classes,
            self._settings.dropout,
            stream,
            self._weights,
        )
        self._keep_best()
        return Done(number=request.number)

    def _keep_best(self) -> None:
        score = self._score_weights(self._trainer.vector())
        reached = score.reached(self._training.monitor)
        if reached > self._best_score:
            self._best, self._best_score = self._trainer.vector(), reached

    @torch.no_grad()
    def _score_weights(self, vector: Tensor) -> LocalScore:
        logits = self._network.logits(split_vector(vector, self._network.shapes))
        graph = self._shard.graph
        return score_locally(self._shard.client, logits.cpu(), graph.labels, graph.split)

    def measure(self, release: Message) -> list[LocalScore]:
        """Score the party's best weights on its own nodes."""
        return [self._score_weights(self._best)]

    def state(self) -> State:
        """Return the weights, the optimizer's state, and the best weights so far."""
        score = torch.tensor(self._best_score, dtype=torch.float64)
        return {**self._trainer.state(), "best": self._best, "best_score": score}

    def restore(self, state: State) -> None:
        """Take up what `state` gave."""
        self._trainer.restore(state)
        self._best = state["best"].to(self._device)
        self._best_score = float(state["best_score"])


class Clock(Server):
    """A server that only counts the rounds."""

    def __init__(
        self,
        info: PublicInfo,
        settings: MethodSettings,
        training: TrainingSettings,
        cohort: Cohort,
    ) -> None:
        self._cohort = cohort

    def round(self, number: int) -> Message:
        """Let every party train for a round."""
        self._cohort.ask(Go(number=number), Done)
        return Go(number=number)

    def state(self) -> State:
        """Return nothing: parties keep their own models."""
        return {}

    def restore(self, state: State) -> None:
        """Do nothing, because there is nothing to restore."""


def plan_releases(
    settings: MethodSettings, training: TrainingSettings, info: PublicInfo
) -> list[PlannedRelease]:
    """Return nothing: no private field leaves."""
    return []


METHOD = Method(
    name="alone",
    summary="every party trains by itself; with centralised: true, the centralised reference",
    settings=Settings,
    messages=(Go, Done),
    replies={Go: Done},
    release=Go,
    planned=plan_releases,
    make_host=Party,
    make_server=Clock,
    answers_shown=lambda settings: False,
    weighs_classes=True,
)
