"""MLPs: every client trains a perceptron on its own samples. Nothing is exchanged.

The baseline of GFL-APPNP's paper where every client is a node with samples of its own. `alone` is
the like for clients with graphs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from securefg.federation.evaluation import LocalScore, score_clients
from securefg.federation.roles import Host, PublicInfo, Server, Site, State
from securefg.foundation.streams import torch_stream
from securefg.methods.alone.algorithm import Clock as AloneClock
from securefg.methods.alone.algorithm import Done, Go
from securefg.methods.base import Method
from securefg.methods.fedmlp.algorithm import require_one_node_each
from securefg.methods.mlps.settings import Settings
from securefg.models.classifiers import mlp_shapes, run_mlp
from securefg.models.many_mlps import ClientSamples, local_sgd
from securefg.models.network import draw_glorot, split_vector
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.codec import Turn
from securefg.protocol.messages import Message
from securefg.settings.execution import TrainingSettings


def plan_releases(
    settings: Settings, training: TrainingSettings, info: PublicInfo
) -> list[PlannedRelease]:
    """Return nothing: no private field leaves."""
    require_one_node_each(info)
    return []


class Users(Host):
    """A host of some of the clients, as one tensor: each has its own weights, and the best it has
    had.

    Best is the lowest validation loss with `training.monitor: val_loss`, else the highest accuracy.
    A client without validation samples keeps its last weights.
    """

    def __init__(self, site: Site[Settings]) -> None:
        self._settings: Settings = site.method
        self._training, self._seed, self._device = site.training, site.seed, site.device
        self._samples = ClientSamples.of(site.shards, site.device)
        graph = site.shards[0].graph
        self._shapes = mlp_shapes(graph.num_features, self._settings.hidden, graph.num_classes)
        streams = (torch_stream(site.seed, "weights", shard.client) for shard in site.shards)
        drawn = torch.stack([draw_glorot(self._shapes, stream) for stream in streams])
        self._weights = drawn.to(site.device)
        self._best = self._weights.clone()
        self._best_score = torch.full((len(drawn),), -torch.inf, device=site.device)

    def handle(self, request: Message, turn: Turn) -> Message:
        """Train every perceptron for a round on its own samples."""
        assert isinstance(request, Go)
        rows = self._samples.rows(turn.clients.array())
        training_set = self._samples.training_set(rows)
        steps = self._training.local_epochs
        self._weights[rows] = local_sgd(
            self._weights[rows],
            self._shapes,
            training_set,
            training_set.draw_batches(
                self._settings.batch_size, steps, self._seed, "batch", turn.round
            ),
            self._training.lr,
            self._training.weight_decay,
        )
        self._keep_best()
        return Done(number=request.number)

    def _keep_best(self) -> None:
        by_loss = self._training.monitor == "val_loss"
        scores = self._score_users(self._weights)
        reached = torch.tensor(
            [-s.val_loss if by_loss else s.val_correct / max(s.val_count, 1) for s in scores],
            device=self._device,
        )
        unmeasured = torch.tensor([s.val_count == 0 for s in scores], device=self._device)
        better = (reached > self._best_score) | unmeasured
        self._best = torch.where(better[:, None], self._weights, self._best)
        self._best_score = torch.where(better, reached, self._best_score)

    @torch.no_grad()
    def _score_users(self, weights: Tensor) -> list[LocalScore]:
        samples = self._samples
        logits = run_mlp(split_vector(weights, self._shapes), samples.inputs)
        return score_clients(samples.clients.tolist(), logits, samples.labels, samples.masks)

    def measure(self, release: Message) -> list[LocalScore]:
        """Score every user's best weights on its own samples."""
        return self._score_users(self._best)

    def state(self) -> State:
        """Return all users' weights, and the best that each has had."""
        return {"weights": self._weights, "best": self._best, "best_score": self._best_score}

    def restore(self, state: State) -> None:
        """Take up what `state` gave."""
        self._weights = state["weights"].to(self._device)
        self._best = state["best"].to(self._device)
        self._best_score = state["best_score"].to(self._device)


class Clock(AloneClock, Server):
    """A server that only counts the rounds."""


METHOD = Method(
    name="mlps",
    summary="every client trains a perceptron on its own samples; nothing is exchanged",
    settings=Settings,
    messages=(Go, Done),
    replies={Go: Done},
    release=Go,
    planned=plan_releases,
    make_host=Users,
    make_server=Clock,
    batched=True,
    answers_shown=lambda settings: False,
)
