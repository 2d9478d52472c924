"""FedAvg (McMahan et al. 2017) of any network over (x, edge_index). With `proximal`, FedProx.

Clients hold subgraphs and train the network on their own. The server averages. FedProx (Li et al.
2020) adds mu/2 |w - w_global|^2 to the local loss. The local steps can be private per node, which
is refused where a node is in other nodes' gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from securefg.data.graph import Graph
from securefg.federation.evaluation import LocalScore, UnionGoal, score_locally
from securefg.federation.roles import Cohort, Host, PublicInfo, Site, State
from securefg.foundation.errors import ConfigError
from securefg.foundation.streams import derive_seed, torch_stream
from securefg.methods.base import AveragingServer, Method, one_step_of_adam
from securefg.methods.fedavg.settings import Settings
from securefg.models import any_network
from securefg.models.optimizers import Sgd, SteppedAdam
from securefg.models.sparse import Incoming, draw_batches
from securefg.models.training import class_weights
from securefg.privacy.influence import NOTHING, Influence
from securefg.privacy.private_training import (
    PrivateTraining,
    private_training,
    refuse_where_samples_share_neighbours,
)
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.codec import Turn
from securefg.protocol.meanings import Networks, Size, Weights
from securefg.protocol.messages import Message, private, public
from securefg.settings.execution import TrainingSettings


class Globals(Message, kind="fedavg.Globals"):
    """A model that the server distributes and releases."""

    weights: Tensor = public("global model", means=Weights("network", change=False))


class Update(Message, kind="fedavg.Update"):
    """A trained model, or its change, and the size by which it counts."""

    weights: Tensor = private(
        "sum",
        "trained model, or its change",
        means=lambda s: Weights(
            "network",
            change=s.upload == "update",
            edges=any_network.EDGE_DIM in s.arguments or None,
        ),
        weight="num_nodes",
    )
    num_nodes: Tensor | None = private(
        "sum", "number of nodes, by which clients are weighted", means=Size()
    )


def make_network(
    settings: Settings, num_features: int, num_classes: int, seed: int
) -> torch.nn.Module:
    """Return the network that the settings name, with weights drawn from the seed."""
    return any_network.build_network(
        settings.network, settings.arguments, num_features, num_classes, seed
    )


def list_networks(settings: Settings, info: PublicInfo, seed: int) -> Networks:
    """Return the layout of the one network."""
    made = make_network(settings, info.num_features, info.num_classes, info.seed)
    sizes = (info.num_features, info.num_classes)
    return {"network": any_network.layout_of(made, *sizes, settings.optimizer)}


def plan_releases(
    settings: Settings, training: TrainingSettings, info: PublicInfo
) -> list[PlannedRelease]:
    """Return the private fields that leave, and how often at most."""
    made = make_network(settings, info.num_features, info.num_classes, info.seed)
    trained = _private_training(training, settings)
    if trained is not None:
        trained.adopt(made)
        _refuse_mixing(trained, made, info.num_features, settings.arguments.get("edge_dim"))
        _refuse_wrong_gradients(trained, made, info)
    numbers, is_weighted = len(any_network.vector_of(made)), settings.weighting == "nodes"
    weights = PlannedRelease(
        Update,
        "weights",
        training.rounds,
        numbers,
        trained=trained,
        discloses=one_step_of_adam(training, settings.optimizer) if is_weighted else None,
        relative_to="weights" if settings.upload == "model" else None,
    )
    if trained is not None:  # a node is one sample, and trains without its edges
        weights = replace(weights, node=Influence(rows=1), edge=NOTHING)
    if not is_weighted:
        return [weights]
    nodes = info.num_nodes
    return [
        weights,
        PlannedRelease(Update, "num_nodes", training.rounds, bound=nodes, edge=NOTHING),
    ]


def _private_training(training: TrainingSettings, settings: Settings) -> PrivateTraining | None:
    return private_training(training, {"method.proximal": settings.proximal})


def _refuse_mixing(
    trained: PrivateTraining, made: torch.nn.Module, num_features: int, edge_dim: int | None
) -> None:
    """Raise ConfigError if a network reads neighbours, which shows on a ring of eight nodes."""
    edges = any_network.ring_edges(8)
    numbers = None if edge_dim is None else torch.ones(edges.shape[1], edge_dim)

    def logits(rows: Tensor) -> Tensor:
        return any_network.answer_nodes(made, rows, edges, numbers)

    refuse_where_samples_share_neighbours(
        f"{trained.key}: fedavg", logits, torch.zeros(8, num_features)
    )


def _refuse_wrong_gradients(
    trained: PrivateTraining, made: torch.nn.Module, info: PublicInfo
) -> None:
    """Check gradients as in training, without edges: few samples, and as many as a client may
    have."""
    stream = torch.Generator().manual_seed(0)
    for count in sorted({8, trained.num_samples}):
        rows = torch.randn(count, info.num_features, generator=stream)
        trained.refuse_module(
            f"{trained.key}: fedavg",
            made,
            (rows, torch.zeros(2, 0, dtype=torch.int64)),
            info.num_classes,
        )


def _refuse_other_depths(made: torch.nn.Module, settings: Settings) -> None:
    """Raise ConfigError if a torch-geometric network has another number of layers than `fan_out`.
    An own network may not tell its number."""
    layers, found = getattr(made, "num_layers", None), len(settings.sampling.fan_out)
    if layers is not None and layers != found:
        raise ConfigError(
            f"method.sampling.fan_out has {found} numbers; {settings.network} has {layers} layers "
            f"and wants as many"
        )


def _refuse_numbers(numbers: Tensor | None) -> None:
    """Raise ConfigError where neighbours would be sampled without the features of their edges."""
    if numbers is not None:
        raise ConfigError(
            "method.sampling.above: found fewer than the client's nodes; expected more with "
            "method.arguments.edge_dim, since sampled edges carry no features"
        )


class Client(Host):
    """A client with its subgraph. It keeps nothing from round to round."""

    def __init__(self, site: Site[Settings]) -> None:
        (self._shard,) = site.shards
        self._settings, self._training = site.method, site.training
        self._seed, self._device, self._noise = site.seed, site.device, site.noise
        graph = self._shard.graph
        if graph.features.dim() != 2:
            raise ConfigError(
                f"method.name: fedavg wants one sample per node, found {graph.features.shape[1]}; "
                "allowed for several: fedmlp, gfl_appnp"
            )
        sizes = (graph.num_features, graph.num_classes)
        self._network = make_network(site.method, *sizes, site.seed).to(site.device)
        self._x = graph.features.to(site.device)
        self._edges = graph.edge_index.to(site.device)
        numbers = any_network.read_edges(graph, site.method.arguments)
        self._numbers = None if numbers is None else numbers.to(site.device)
        self._labels = graph.labels.to(site.device)
        self._train = graph.split.train.nonzero().flatten().to(site.device)
        trained = self._labels[self._train]
        self._weights = class_weights(trained, graph.num_classes, site.training)
        sampled = len(self._x) > site.method.sampling.above
        self._incoming = Incoming.of(self._edges, len(self._x)) if sampled else None
        if sampled:
            _refuse_numbers(self._numbers)
            _refuse_other_depths(self._network, site.method)
        self._private = _private_training(site.training, site.method)
        if self._private is not None:
            self._private.require_samples(self._private.num_samples, len(self._train))

    def handle(self, request: Message, turn: Turn) -> Message:
        """Train the network that came, and return it or its change."""
        assert isinstance(request, Globals)
        start = request.weights.to(self._device)
        any_network.load_vector(self._network, start)
        if self._private is not None:
            self._private_steps(self._private, turn)
        elif len(self._train):
            self._take_steps(start, turn)
        trained = any_network.vector_of(self._network)
        if self._settings.upload == "update":
            trained = trained - start
        size = torch.tensor([float(len(self._x))]) if self._settings.weighting == "nodes" else None
        return Update(weights=trained[None], num_nodes=size)

    def constants(self, num_nodes: int, turn: Turn) -> State:
        """Return how many nodes the client holds."""
        return {"num_nodes": torch.tensor([float(len(self._x))])}

    def _take_steps(self, start: Tensor, turn: Turn) -> None:
        kind = SteppedAdam if self._settings.optimizer == "adam" else Sgd
        lr, decay = self._training.lr, self._training.weight_decay
        optimizers = [(w, kind([w], [decay], lr)) for w in self._network.parameters()]
        self._network.train()
        with any_network.seeded_stream(
            derive_seed(self._seed, "dropout", self._shard.client, turn.round)
        ):
            for x, edges, nodes, labels in self._draw_batches(turn):
                self._network.zero_grad()
                scores = any_network.answer_nodes(self._network, x, edges, self._numbers)
                loss = cross_entropy(scores[nodes], labels, self._weights)
                if self._settings.proximal:
                    apart = torch.nn.utils.parameters_to_vector(self._network.parameters()) - start
                    loss = loss + self._settings.proximal / 2 * apart.square().sum()
                torch.autograd.backward(loss)
                for weights, optimizer in optimizers:
                    if weights.grad is not None:  # a network may leave weights unused
                        optimizer.step([weights.grad])

    def _draw_batches(self, turn: Turn) -> Iterator[tuple[Tensor, Tensor, Tensor | slice, Tensor]]:
        """Yield features, edges, which nodes have labels, and these: for every step of a round."""
        if self._incoming is None:
            whole = (self._x, self._edges, self._train, self._labels[self._train])
            yield from [whole] * self._training.local_epochs
            return
        sampling = self._settings.sampling
        names = ("neighbors", self._shard.client, turn.round)
        stream = torch_stream(self._seed, *names, device=str(self._device))
        for _ in range(self._training.local_epochs):
            for batch in draw_batches(len(self._train), sampling.batch_size, stream):
                nodes = self._train[batch]
                known, edges = self._incoming.edges_around(nodes, sampling.fan_out, stream)
                yield self._x[known], edges, slice(len(nodes)), self._labels[nodes]

    def _private_steps(self, private: PrivateTraining, turn: Turn) -> None:
        """Take steps on Poisson samples of the training nodes, each by itself, with noise in every
        step."""
        rows = (self._x[self._train], self._edges.new_zeros(2, 0))
        labels = self._labels[self._train]
        private.train_module(self._network, rows, labels, self._noise, turn.clients, turn.round)

    @torch.no_grad()
    def measure(self, release: Message) -> list[LocalScore]:
        """Return the scores of the global model on the client's own nodes."""
        assert isinstance(release, Globals)
        any_network.load_vector(self._network, release.weights.to(self._device))
        made = self._network.eval()
        logits = any_network.answer_nodes(made, self._x, self._edges, self._numbers).cpu()
        graph = self._shard.graph
        return [score_locally(self._shard.client, logits, graph.labels, graph.split)]


def make_server(
    info: PublicInfo, settings: Settings, training: TrainingSettings, cohort: Cohort
) -> AveragingServer:
    """Return the server that averages the networks."""
    made = make_network(settings, info.num_features, info.num_classes, info.seed)
    return AveragingServer(
        info,
        training,
        cohort,
        initial=any_network.vector_of(made),
        request=lambda weights: Globals(weights=weights),
        reply=Update,
        changes=settings.upload == "update",
    )


def global_goal(union: Graph, settings: Settings, device: torch.device) -> UnionGoal:
    """Return the scores of the global model on the union graph."""
    made = make_network(settings, union.num_features, union.num_classes, 0).to(device)
    features, edges = union.features.to(device), union.edge_index.to(device)
    numbers = any_network.read_edges(union.to(device), settings.arguments)

    @torch.no_grad()
    def logits(release: Message) -> Tensor:
        assert isinstance(release, Globals)
        any_network.load_vector(made, release.weights.to(device))
        return any_network.answer_nodes(made.eval(), features, edges, numbers).cpu()

    return UnionGoal(union, logits)


METHOD = Method(
    name="fedavg",
    summary="federated averaging of any network, torch-geometric's or your own; FedProx",
    settings=Settings,
    messages=(Globals, Update),
    replies={Globals: Update},
    release=Globals,
    planned=plan_releases,
    networks=list_networks,
    make_host=Client,
    make_server=make_server,
    make_evaluator=global_goal,
    weighs_classes=True,
)
