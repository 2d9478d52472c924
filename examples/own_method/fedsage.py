"""A method of your own: federated averaging of a GraphSAGE network, every upload plain."""

import torch
from torch import Tensor, nn
from torch.optim import Adam
from torch_geometric.nn import GraphSAGE

from securefg.federation.evaluation import Evaluator, score_logits
from securefg.federation.roles import Host, PublicInfo
from securefg.methods.base import AveragingServer, Method
from securefg.models.any_network import layout_of, load_vector, seeded_stream, vector_of
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.meanings import Weights
from securefg.protocol.messages import Message, private, public
from securefg.settings.methods import MethodSettings


class Settings(MethodSettings):
    hidden: int = 16


class Globals(Message, kind="fedsage.Globals"):
    weights: Tensor = public("global model", means=Weights("network", change=False))


class Update(Message, kind="fedsage.Update"):
    weights: Tensor = private("sum", "trained model", means=Weights("network", change=False))


def network(of, settings: Settings) -> nn.Module:
    with seeded_stream(0):
        return GraphSAGE(of.num_features, settings.hidden, 2, of.num_classes)


def networks(settings: Settings, info: PublicInfo, seed: int):
    sizes = info.num_features, info.num_classes
    return {"network": layout_of(network(info, settings), *sizes, "adam")}


def planned(settings: Settings, training, info: PublicInfo) -> list[PlannedRelease]:
    weights = vector_of(network(info, settings))
    return [PlannedRelease(Update, "weights", training.rounds, len(weights))]


class Client(Host):
    def __init__(self, site) -> None:
        self.graph, self.training = site.shards[0].graph, site.training
        self.net = network(self.graph, site.method)

    def handle(self, request: Globals, turn) -> Update:
        load_vector(self.net, request.weights)
        adam, train = Adam(self.net.parameters(), self.training.lr), self.graph.split.train
        for _ in range(self.training.local_epochs):
            adam.zero_grad()
            logits = self.net(self.graph.features, self.graph.edge_index)
            nn.functional.cross_entropy(logits[train], self.graph.labels[train]).backward()
            adam.step()
        return Update(weights=vector_of(self.net)[None])


def make_server(info: PublicInfo, settings: Settings, training, cohort) -> AveragingServer:
    start, ask = vector_of(network(info, settings)), lambda weights: Globals(weights=weights)
    return AveragingServer(info, training, cohort, start, ask, Update, changes=False)


class Goal(Evaluator):
    def __init__(self, union, settings: Settings, device: torch.device) -> None:
        self.graph, self.net = union, network(union, settings)

    def score(self, release: Globals):
        return score_logits(self.answers(release), self.graph.labels, self.graph.split)

    @torch.no_grad()
    def answers(self, release: Globals) -> Tensor:
        load_vector(self.net, release.weights)
        return self.net(self.graph.features, self.graph.edge_index)


METHOD = Method(
    name="fedsage",
    summary="federated averaging of GraphSAGE",
    settings=Settings,
    messages=(Globals, Update),
    release=Globals,
    planned=planned,
    networks=networks,
    make_host=Client,
    make_server=make_server,
    make_evaluator=Goal,
)
