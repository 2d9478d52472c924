"""A method from outside the package that sends what its settings name, two private fields at once.

Games meet it with two private fields per message, with none, and with any data: every kind of
field that a game reads is sent by one of its replies.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from securefg.data.graph import Graph, Split
from securefg.federation.evaluation import (
    Evaluator,
    LocalScore,
    Scores,
    score_locally,
    score_logits,
)
from securefg.federation.roles import Cohort, Host, PublicInfo, Server, Site, State, require_replies
from securefg.methods.base import Method
from securefg.models.any_network import layout_of, load_vector, seeded_stream, vector_of
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.codec import Turn
from securefg.protocol.meanings import (
    Networks,
    NodeRows,
    Predictions,
    Size,
    Statistic,
    Weights,
)
from securefg.protocol.messages import Message, private, public
from securefg.settings.methods import MethodSettings

WIDTH = 6


class Settings(MethodSettings):
    name: Literal["tests.contract.talker"] = "tests.contract.talker"
    says: Literal["statistics", "rows", "weights", "latents", "nothing"] = "statistics"


class Model(Message, kind="talker.Model"):
    weights: Tensor = public("linear model", means=Weights("network", change=False))
    index_size: int = public("number of nodes in the global index")


class Sums(Message, kind="talker.Sums"):
    by_class: Tensor = private(
        "sum", "features summed by class", means=Statistic("both", "by_class")
    )
    moments: Tensor = private("sum", "second moments", means=Statistic("both", "moments"))


class Rows(Message, kind="talker.Rows"):
    hidden: Tensor = private(
        "sum", "mixed features", means=NodeRows("hidden", "nodes", "network"), rows="node"
    )
    predictions: Tensor = private(
        "sum", "class probabilities", means=Predictions("nodes"), rows="node"
    )


class Update(Message, kind="talker.Update"):
    change: Tensor = private("sum", "change of the model", means=Weights("network", change=True))
    size: Tensor = private("sum", "number of nodes", means=Size())


class Latents(Message, kind="talker.Latents"):
    latent: Tensor = private("sum", "row", means=NodeRows("latent", "client", "network"))
    change: Tensor = private("sum", "change of the model", means=Weights("network", change=True))


class Nothing(Message, kind="talker.Nothing"):
    number: int = public("the round")


REPLIES = {
    "statistics": Sums,
    "rows": Rows,
    "weights": Update,
    "latents": Latents,
    "nothing": Nothing,
}


def network(of: Any) -> nn.Module:
    with seeded_stream(0):
        return nn.Linear(of.num_features, of.num_classes)


def one_row_each(graph: Graph) -> Tensor:
    """(N, d): the mean of a node's samples."""
    return graph.features if graph.features.dim() == 2 else graph.features.mean(1)


def one_label_each(graph: Graph) -> Tensor:
    return graph.labels if graph.labels.dim() == 1 else graph.labels[:, 0]


def trains(graph: Graph) -> Tensor:
    """Whether a node trains, with any of its samples."""
    train = graph.split.train
    found = train.reshape(len(train), -1).any(1)
    whole = found if len(found) == graph.num_nodes else found.expand(graph.num_nodes)
    return whole & (one_label_each(graph) >= 0)


def mixed(graph: Graph) -> Tensor:
    """A node's row and the mean of its neighbours'."""
    rows = one_row_each(graph)
    source, target = graph.edge_index
    around = torch.zeros_like(rows).index_add(0, target, rows[source])
    degree = torch.bincount(target, minlength=graph.num_nodes).clamp_min(1)
    return (rows + around / degree[:, None]) / 2


class Client(Host):
    def __init__(self, site: Site[Settings]) -> None:
        (self._shard,) = site.shards
        self._says, self._graph = site.method.says, self._shard.graph

    def handle(self, request: Message, turn: Turn) -> Message:
        assert isinstance(request, Model)
        graph, train = self._graph, trains(self._graph)
        rows = mixed(graph)
        if self._says == "statistics":
            labels = one_hot(one_label_each(graph)[train].clamp_min(0), graph.num_classes)
            sums, moments = rows[train].T @ labels.float(), rows[train].T @ rows[train]
            return Sums(by_class=sums[None], moments=moments[None])
        if self._says == "rows":
            return self._in_the_global_index(rows, request)
        if self._says == "weights":
            size = torch.tensor([float(graph.num_nodes)])
            return Update(change=self._change(request)[None], size=size[None])
        if self._says == "latents":
            return Latents(latent=rows[:1, :WIDTH], change=self._change(request)[None])
        return Nothing(number=turn.round)

    def _in_the_global_index(self, rows: Tensor, request: Model) -> Rows:
        hidden = torch.zeros(1, request.index_size, WIDTH)
        hidden[0, self._shard.node_ids] = rows[:, :WIDTH]
        predictions = torch.zeros(1, request.index_size, self._graph.num_classes)
        predictions[0, self._shard.node_ids] = logits_of(self._graph, request.weights).softmax(-1)
        return Rows(hidden=hidden, predictions=predictions)

    def _change(self, request: Model) -> Tensor:
        """One step of gradient descent."""
        graph, net, train = self._graph, network(self._graph), trains(self._graph)
        load_vector(net, request.weights)
        if not bool(train.any()):
            return torch.zeros_like(request.weights)
        loss = nn.functional.cross_entropy(net(mixed(graph))[train], one_label_each(graph)[train])
        loss.backward()
        return -torch.cat([p.grad.flatten() for p in net.parameters() if p.grad is not None])

    def measure(self, release: Message) -> list[LocalScore]:
        assert isinstance(release, Model)
        graph = self._graph
        logits = logits_of(graph, release.weights)
        return [score_locally(self._shard.client, logits, one_label_each(graph), split_of(graph))]


def logits_of(graph: Graph, weights: Tensor) -> Tensor:
    net = network(graph)
    load_vector(net, weights)
    with torch.no_grad():
        return net(mixed(graph))


def split_of(graph: Graph) -> Split:
    """A split of nodes: the first sample's, where every sample has its own."""
    parts = (graph.split.train, graph.split.val, graph.split.test)
    nodes = [p.reshape(len(p), -1)[:, 0].expand(graph.num_nodes) for p in parts]
    return Split(*nodes)


class Talker(Server):
    """Asks once a round, and releases a model that the replies move."""

    def __init__(self, info: PublicInfo, settings: Settings, training: Any, cohort: Cohort) -> None:
        self._info, self._settings, self._cohort = info, settings, cohort
        self._weights = vector_of(network(info))

    def round(self, number: int) -> Message:
        reply = REPLIES[self._settings.says]
        asked = self._cohort.ask(self._model(), reply)
        replies = require_replies(asked, number)
        if self._settings.says == "statistics":
            sums, moments = (replies.sum(n).double() for n in ("by_class", "moments"))
            ridge = torch.eye(len(moments), dtype=torch.float64)
            solved = torch.linalg.solve(moments + ridge, sums)
            self._weights = torch.cat([solved.T.flatten(), torch.zeros(sums.shape[1])]).float()
        elif self._settings.says in ("weights", "latents"):
            self._weights = self._weights + replies.mean("change").to(self._weights)
        return self._model()

    def _model(self) -> Model:
        return Model(weights=self._weights, index_size=self._info.num_nodes)

    def state(self) -> State:
        return {"weights": self._weights}

    def restore(self, state: State) -> None:
        self._weights = state["weights"]


class Goal(Evaluator):
    def __init__(self, union: Graph, settings: Settings, device: torch.device) -> None:
        self._graph = union

    def score(self, release: Message) -> Scores:
        graph = self._graph
        return score_logits(self.answers(release), one_label_each(graph), split_of(graph))

    def answers(self, release: Message) -> Tensor:
        assert isinstance(release, Model)
        return logits_of(self._graph, release.weights)


def networks(settings: Settings, info: PublicInfo, seed: int) -> Networks:
    return {"network": layout_of(network(info), info.num_features, info.num_classes, "sgd")}


def planned(settings: Settings, training: Any, info: PublicInfo) -> list[PlannedRelease]:
    wide, classes, count = info.num_features, info.num_classes, training.rounds
    change = (wide + 1) * classes
    sizes = {
        "statistics": [(Sums, "by_class", wide * classes, 1), (Sums, "moments", wide**2, 1)],
        "rows": [
            (Rows, "hidden", info.num_nodes * WIDTH, info.num_nodes),
            (Rows, "predictions", info.num_nodes * classes, info.num_nodes),
        ],
        "weights": [(Update, "change", change, 1), (Update, "size", 1, 1)],
        "latents": [(Latents, "latent", WIDTH, 1), (Latents, "change", change, 1)],
        "nothing": [],
    }
    return [PlannedRelease(m, n, count, dim, rows) for m, n, dim, rows in sizes[settings.says]]


METHOD = Method(
    name="tests.contract.talker",
    summary="sends two private fields at once, or none",
    settings=Settings,
    messages=(Model, Sums, Rows, Update, Latents, Nothing),
    release=Model,
    planned=planned,
    networks=networks,
    make_host=Client,
    make_server=Talker,
    make_evaluator=Goal,
)
