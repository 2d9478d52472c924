"""Every party trains a GCN by itself: nothing is exchanged, so nothing leaks and nothing is gained.

The paper's baseline "Local"; with `merged: true`, where one party holds what all hold together, it
is "Centralized".
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from securefg.channel import Turn
from securefg.evaluation import LocalScore, score_locally
from securefg.messages import Message, public
from securefg.models.gcn import gcn, gcn_inputs
from securefg.models.local_training import GcnTrainer, Targets
from securefg.privacy.policy import PlannedRelease
from securefg.roles import Cohort, Host, Method, MethodSettings, PublicInfo, Server, Site, State
from securefg.streams import torch_stream


class Settings(MethodSettings):
    name: Literal["alone"] = "alone"
    hidden: int = Field(16, ge=1)
    dropout: float = Field(0.5, ge=0, lt=1)


class Go(Message):
    """Train for a round."""

    number: int = public("the round")


class Done(Message):
    """Trained; nothing else is said."""

    number: int = public("the round")


class Party(Host):
    """One party with its own model and optimizer, kept over all rounds.

    It keeps the weights with the best validation score of its own, as anyone alone would.
    """

    def __init__(self, site: Site) -> None:
        (self._shard,) = site.shards
        self._settings: Settings = site.method
        self._training, self._seed, self._device = site.training, site.seed, site.device
        graph = self._shard.graph
        inputs = gcn_inputs(graph, self._settings.hidden, site.device)
        self._shape, self._adjacency, self._features = inputs
        self._train = graph.split.train.nonzero().flatten().to(site.device)
        initial = self._shape.initial(torch_stream(site.seed, "weights", self._shard.client))
        self._trainer = GcnTrainer(
            self._shape, initial.to(site.device), self._training.lr, self._training.weight_decay
        )
        self._best, self._best_accuracy = self._trainer.vector(), -1.0

    def handle(self, request: Message, turn: Turn) -> Message:
        assert isinstance(request, Go)
        stream = torch_stream(
            self._seed, "dropout", self._shard.client, turn.round, device=str(self._device)
        )
        labels = self._shard.graph.labels.to(self._device)[self._train]
        self._trainer.train(
            self._training.local_epochs,
            self._adjacency,
            self._features,
            [Targets(self._train, labels)],
            self._settings.dropout,
            stream,
        )
        self._keep_best()
        return Done(number=request.number)

    def _keep_best(self) -> None:
        score = self._score(self._trainer.vector())
        accuracy = score.val_correct / max(score.val_count, 1)
        if accuracy > self._best_accuracy:
            self._best, self._best_accuracy = self._trainer.vector(), accuracy

    @torch.no_grad()
    def _score(self, vector: Tensor) -> LocalScore:
        _, logits = gcn(self._shape.split(vector), self._adjacency, self._features)
        graph = self._shard.graph
        return score_locally(self._shard.client, logits.cpu(), graph.labels, graph.split)

    def measure(self, release: Message) -> list[LocalScore]:
        return [self._score(self._best)]

    def state(self) -> State:
        accuracy = torch.tensor(self._best_accuracy, dtype=torch.float64)
        return {**self._trainer.state(), "best": self._best, "best_accuracy": accuracy}

    def restore(self, state: State) -> None:
        self._trainer.restore(state)
        self._best = state["best"].to(self._device)
        self._best_accuracy = float(state["best_accuracy"])


class Clock(Server):
    """A server that only counts the rounds."""

    def __init__(self, info: PublicInfo, settings: Settings, training: Any, cohort: Cohort) -> None:
        self._cohort = cohort

    def round(self, number: int) -> Message:
        self._cohort.ask(Go(number=number), Done)
        return Go(number=number)

    def state(self) -> State:
        return {}

    def restore(self, state: State) -> None:
        """Nothing to restore."""


def planned(settings: Settings, training: Any, info: PublicInfo) -> list[PlannedRelease]:
    return []


METHOD = Method(
    name="alone",
    summary="every party trains by itself; with merged: true, the centralised reference",
    settings=Settings,
    messages=(Go, Done),
    planned=planned,
    make_host=Party,
    make_server=Clock,
)
