"""FedMLP: federated averaging (McMahan et al. 2017) of perceptrons. Nobody uses the graph.

The baseline of GFL-APPNP's paper where every client is a node with samples of its own. Clients
count alike, so that no size leaves a client, and the server needs nothing but the sum.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from securefg.federation.evaluation import LocalScore, score_clients
from securefg.federation.roles import Cohort, Host, PublicInfo, Site
from securefg.foundation.errors import ConfigError
from securefg.foundation.streams import torch_stream
from securefg.methods.base import AveragingServer, Method
from securefg.methods.fedmlp.settings import Settings
from securefg.models.classifiers import mlp_shapes, run_mlp
from securefg.models.many_mlps import ClientSamples, TrainingSet, local_sgd
from securefg.models.network import draw_glorot, num_parameters, split_vector
from securefg.privacy.influence import NOTHING
from securefg.privacy.private_training import (
    PrivateTraining,
    Samples,
    mlp_loss,
    private_training,
    refuse_where_samples_share_neighbours,
)
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.codec import Turn
from securefg.protocol.meanings import Layer, Layout, Matrix, Networks, Weights
from securefg.protocol.messages import Message, private, public
from securefg.settings.execution import TrainingSettings


class Globals(Message, kind="fedmlp.Globals"):
    """A model that the server distributes and releases."""

    weights: Tensor = public("global model", means=Weights("network", change=False))


class Update(Message, kind="fedmlp.Update"):
    """A set of the models that users trained, or their changes."""

    weights: Tensor = private(
        "sum",
        "trained model, or its change",
        means=lambda s: Weights("network", change=s.upload == "update"),
    )


def require_one_node_each(info: PublicInfo) -> None:
    """Raise ConfigError unless every client has one node. Clients are laid out as one tensor."""
    if info.num_clients != info.num_nodes:
        raise ConfigError(
            f"partition: {info.num_clients} clients for {info.num_nodes} nodes; perceptrons of "
            "many clients want one client per node (partition.name: one_node, centralised: false)"
        )


def plan_releases(
    settings: Settings, training: TrainingSettings, info: PublicInfo
) -> list[PlannedRelease]:
    """Return the private field that leaves, and how often at most."""
    require_one_node_each(info)
    shapes = mlp_shapes(info.num_features, settings.hidden, info.num_classes)
    trained = private_training(training)
    if trained is not None:
        weights = [torch.zeros(shape) for shape in shapes]
        refuse_where_samples_share_neighbours(
            f"{trained.key}: fedmlp", partial(run_mlp, weights), torch.zeros(8, info.num_features)
        )
    numbers = num_parameters(shapes)
    return [
        PlannedRelease(Update, "weights", training.rounds, numbers, trained=trained, edge=NOTHING)
    ]


def list_networks(settings: Settings, info: PublicInfo, seed: int) -> Networks:
    """Return the layout of ReLU(X W0) W1."""
    first, second = mlp_shapes(info.num_features, settings.hidden, info.num_classes)
    return {
        "network": Layout(
            layers=(Layer("first", first), Layer("second", second)),
            inputs=(Matrix("first"),),
            output=Matrix("second"),
            form="mlp2",
            optimizer="sgd",
            hidden=settings.hidden,
            dropout=0.0,
        )
    }


class Users(Host):
    """A host of some of the clients, as one tensor. They keep nothing from round to round."""

    def __init__(self, site: Site[Settings]) -> None:
        self._settings: Settings = site.method
        self._training, self._seed, self._device = site.training, site.seed, site.device
        self._samples = ClientSamples.of(site.shards, site.device)
        graph = site.shards[0].graph
        self._shapes = mlp_shapes(graph.num_features, self._settings.hidden, graph.num_classes)
        self._noise = site.noise
        self._private = private_training(site.training)
        if self._private is not None:
            counts = self._samples.masks.train.sum(1)
            self._private.require_samples(int(counts.min()), int(counts.max()))

    def handle(self, request: Message, turn: Turn) -> Message:
        """Train the model that came, for every user on its own samples."""
        assert isinstance(request, Globals)
        rows = self._samples.rows(turn.clients.array())
        start = request.weights.to(self._device)
        training_set = self._samples.training_set(rows)
        vectors = start.expand(len(rows), -1)
        if self._private is not None:
            trained = self._private_steps(self._private, vectors, training_set, turn)
        else:
            steps = self._training.local_epochs
            trained = local_sgd(
                vectors,
                self._shapes,
                training_set,
                training_set.draw_batches(
                    self._settings.batch_size, steps, self._seed, "batch", turn.round
                ),
                self._training.lr,
                self._training.weight_decay,
            )
        return Update(weights=trained - start if self._settings.upload == "update" else trained)

    def _private_steps(
        self, private: PrivateTraining, vectors: Tensor, own: TrainingSet, turn: Turn
    ) -> Tensor:
        """Take steps on Poisson samples in place of batches, with noise in every step."""
        samples = Samples(own.inputs, own.labels)
        weights = tuple(split_vector(vectors, self._shapes))
        done = private.train(weights, samples, mlp_loss, self._noise, turn.clients, turn.round)
        return torch.cat([w.flatten(1) for w in done], 1)

    @torch.no_grad()
    def measure(self, release: Message) -> list[LocalScore]:
        """Return the scores of the global model on every client's own samples."""
        assert isinstance(release, Globals)
        samples = self._samples
        logits = run_mlp(
            split_vector(release.weights.to(self._device), self._shapes), samples.inputs
        )
        return score_clients(samples.clients.tolist(), logits, samples.labels, samples.masks)


def make_server(
    info: PublicInfo, settings: Settings, training: TrainingSettings, cohort: Cohort
) -> AveragingServer:
    """Return a server with W := mean of the models that came back."""
    shapes = mlp_shapes(info.num_features, settings.hidden, info.num_classes)
    return AveragingServer(
        info,
        training,
        cohort,
        initial=draw_glorot(shapes, torch_stream(info.seed, "weights")),
        request=lambda weights: Globals(weights=weights),
        reply=Update,
        changes=settings.upload == "update",
    )


METHOD = Method(
    name="fedmlp",
    summary="federated averaging of perceptrons over clients with samples; no graph",
    settings=Settings,
    messages=(Globals, Update),
    release=Globals,
    networks=list_networks,
    planned=plan_releases,
    make_host=Users,
    make_server=make_server,
    batched=True,
)
