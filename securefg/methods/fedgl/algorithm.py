"""FedGL: federated graph learning with global self-supervision (Chen et al. 2021).

Clients hold overlapping subgraphs. Beside models they upload predictions and node embeddings. The
server fuses them into pseudo labels, which enrich the training labels, and a pseudo graph, which
complements the structure. Comments give the line numbers of the paper's Algorithm 1. Without both
halves this is federated averaging of a GCN, the paper's baseline "Federated".
"""

from __future__ import annotations

import torch
from torch import Tensor

from securefg.data.graph import Graph
from securefg.data.shard import Shard
from securefg.federation.evaluation import LocalScore, UnionGoal, score_locally
from securefg.federation.roles import (
    Cohort,
    Host,
    PublicInfo,
    Replies,
    Server,
    Site,
    State,
    require_replies,
)
from securefg.foundation.streams import derive_seed, torch_stream
from securefg.methods.base import Method, participants
from securefg.methods.fedgl.messages import (
    Globals,
    Update,
    check_request,
    list_networks,
    plan_releases,
)
from securefg.methods.fedgl.settings import Settings
from securefg.models.gcn import GcnShape, Operator, SumOf, gcn_inputs, run_gcn
from securefg.models.pseudo_graph import PseudoGraph, Search, project_graph
from securefg.models.training import GcnTrainer, Targets
from securefg.protocol.codec import Turn
from securefg.protocol.messages import Message
from securefg.settings.execution import TrainingSettings


class Client(Host):
    """A client with its subgraph (lines 3-8)."""

    def __init__(self, site: Site[Settings]) -> None:
        (self._shard,) = site.shards
        self._settings: Settings = site.method
        self._training, self._seed, self._device = site.training, site.seed, site.device
        graph = self._shard.graph
        inputs = gcn_inputs(graph, self._settings.hidden, site.device)
        self._shape, self._adjacency, self._features = inputs
        self._labels = graph.labels.to(site.device)
        self._train = graph.split.train.to(site.device)
        nodes = self._train.nonzero().flatten()
        self._own_targets = Targets.of(nodes, self._labels, 1.0, self._settings.loss)
        self._node_ids = self._shard.node_ids.to(site.device)
        self._num_nodes = torch.tensor([float(len(self._node_ids))])

    def handle(self, request: Message, turn: Turn) -> Message:
        """Train on the own and the pseudo labels, over the complemented graph."""
        assert isinstance(request, Globals)
        weights, training = request.weights.to(self._device), self._training
        features, adjacency = self._features, self._complement_graph(request)  # line 5
        targets = [self._own_targets, *self._pseudo_targets(request)]
        trainer = GcnTrainer(self._shape, weights, training.lr, training.weight_decay)
        epochs, sampling = training.local_epochs, self._settings.sampling
        dropout, dropping = self._settings.dropout, self._named_stream("dropout", turn)
        if len(self._node_ids) > sampling.above:  # line 7
            terms = adjacency.terms if isinstance(adjacency, SumOf) else (self._adjacency,)
            streams = (self._named_stream("neighbors", turn), dropping)
            trainer.train_sampled(epochs, terms, features, targets, dropout, streams, sampling)
        else:
            trainer.train(epochs, adjacency, features, targets, dropout, dropping)
        return self._make_update(trainer, adjacency, request)  # lines 6 and 8

    def _named_stream(self, name: str, turn: Turn) -> torch.Generator:
        names = (name, self._shard.client, turn.round)
        return torch_stream(self._seed, *names, device=str(self._device))

    def _complement_graph(self, request: Globals) -> Operator:
        """Return A_hat_k + beta D^-1/2 A^(k) D^-1/2 (equation 9), A being the pseudo graph."""
        pseudo, settings = request.graph, self._settings
        if pseudo is None:
            return self._adjacency
        own = project_graph(pseudo.to(self._device), self._node_ids, settings.beta, settings.degree)
        return SumOf((self._adjacency, own))

    def _pseudo_targets(self, request: Globals) -> list[Targets]:
        if request.pseudo_labels is None:
            return []
        labels = request.pseudo_labels.to(self._device)[self._node_ids].long()
        chosen = ((labels >= 0) & ~self._train).nonzero().flatten()
        return [Targets.of(chosen, labels, self._settings.alpha, self._settings.loss)]

    @torch.no_grad()
    def _make_update(self, trainer: GcnTrainer, adjacency: Operator, request: Globals) -> Update:
        settings, trained = self._settings, trainer.vector()
        if settings.upload == "update":
            trained = trained - request.weights.to(self._device)
        predictions = embeddings = holds = None
        if settings.uploads_rows:
            hidden, logits = run_gcn(trainer.weights, adjacency, self._features)
            outputs = logits if settings.embedding == "final" else hidden
            predictions = logits.softmax(-1) if settings.pseudo_labels else None
            embeddings = outputs if settings.pseudo_graph else None
            holds = torch.ones_like(logits[:, :1]) if settings.counts_holders else None
        return Update(
            weights=trained[None],
            num_nodes=self._num_nodes if settings.is_weighted_by_nodes else None,
            predictions=self._scatter_rows(predictions, request.index_size),
            embeddings=self._scatter_rows(embeddings, request.index_size),
            holds=self._scatter_rows(holds, request.index_size),
        )

    def _scatter_rows(self, rows: Tensor | None, index_size: int) -> Tensor | None:
        """Return the rows of the own nodes at their places in the global index."""
        if rows is None:
            return None
        whole = rows.new_zeros(1, index_size, rows.shape[1])
        whole[0, self._node_ids] = rows
        return whole

    def constants(self, num_nodes: int, turn: Turn) -> State:
        """Return which nodes the client holds, and how many."""
        ones = torch.ones(len(self._node_ids), 1, device=self._device)
        holds = self._scatter_rows(ones, num_nodes)
        assert holds is not None
        return {"holds": holds, "num_nodes": self._num_nodes}

    @torch.no_grad()
    def answers(self, release: Message) -> Tensor:
        """Return the global model's logits of the client's own nodes."""
        assert isinstance(release, Globals)
        weights = self._shape.split(release.weights.to(self._device))
        return run_gcn(weights, self._complement_graph(release), self._features)[1].cpu()

    def measure(self, release: Message) -> list[LocalScore]:
        """Return the scores of the local goal: the global model on the client's own nodes."""
        graph, logits = self._shard.graph, self.answers(release)
        return [score_locally(self._shard.client, logits, graph.labels, graph.split)]


class FedGLServer(Server):
    """A server of aggregation and the discovery of global self-supervision (lines 1 and 10-16)."""

    def __init__(
        self, info: PublicInfo, settings: Settings, training: TrainingSettings, cohort: Cohort
    ) -> None:
        self._info, self._settings, self._training = info, settings, training
        self._cohort = cohort
        shape = GcnShape(info.num_features, settings.hidden, info.num_classes)
        weights = shape.initial(torch_stream(info.seed, "weights"))
        self._globals = self._make_globals({"weights": weights})  # line 1
        self._recall: float | None = None
        if settings.pseudo_graph:
            sizes = (settings.num_neighbors, settings.exact_nodes, info.num_nodes)
            self._search = Search(*sizes, info.device)

    def round(self, number: int) -> Globals:
        """Ask the clients of the round, and fuse what they upload."""
        clients = participants(self._info, self._training, number)
        replies = require_replies(self._cohort.ask(self._globals, Update, clients), number)
        mean, is_change = replies.mean("weights"), self._settings.upload == "update"  # line 11
        fields = {"weights": self._globals.weights + mean if is_change else mean}
        if self._settings.pseudo_labels:
            fields["pseudo_labels"] = self._pseudo_labels(replies)
        if self._settings.pseudo_graph and number >= self._settings.warmup:
            pseudo = self._pseudo_graph(replies, number)
            fields["graph_counts"], fields["graph_columns"] = pseudo.counts, pseudo.columns
            fields["graph_values"] = pseudo.values
        self._globals = self._make_globals(fields)  # line 16
        return self._globals

    def _make_globals(self, found: State) -> Globals:
        return Globals.made_of({"index_size": self._info.num_nodes, **found})

    def _pseudo_labels(self, replies: Replies[Update]) -> Tensor:
        """Fuse the predictions and return the confident ones (lines 12-13)."""
        confidence, label = self._fuse_field(replies, "predictions").max(-1)
        return torch.where(confidence > self._settings.threshold, label, -1).to(torch.int16)

    def _pseudo_graph(self, replies: Replies[Update], number: int) -> PseudoGraph:
        """Fuse the embeddings and connect the similar nodes (lines 14-15)."""
        seed = derive_seed(self._info.seed, "pseudo_graph", number)
        found, self._recall = self._search.graph_of(self._fuse_field(replies, "embeddings"), seed)
        return found.to("cpu")

    def _fuse_field(self, replies: Replies[Update], field: str) -> Tensor:
        """Return sum_k N_k / M x_k (11, 13). Renormalised, M counts a node's holders alone."""
        if self._settings.fusion == "paper":
            return replies.mean(field)
        held = replies.sum("holds")
        return replies.sum(field) / held.clamp_min(torch.finfo(held.dtype).eps)

    def facts(self) -> dict[str, float]:
        """Return the recall of the approximate search, where one was made."""
        return {} if self._recall is None else {"pseudo_graph_recall": self._recall}

    def state(self) -> State:
        """Return what was last distributed, and the recall."""
        values = self._globals.values()
        kept = {name: value for name, value in values.items() if isinstance(value, Tensor)}
        if self._recall is not None:
            kept["recall"] = torch.tensor(self._recall, dtype=torch.float64)
        return kept

    def restore(self, state: State) -> None:
        """Take up what was last distributed, and the recall."""
        recall = state.get("recall")
        self._recall = None if recall is None else float(recall)
        self._globals = self._make_globals({k: v for k, v in state.items() if k != "recall"})


def global_goal(union: Graph, settings: Settings, device: torch.device) -> UnionGoal:
    """Return the global model on the union graph, complemented as a client would do."""
    everything = Shard(0, torch.arange(union.num_nodes), union)
    client = Client(Site((everything,), settings, TrainingSettings(), 0, device))
    return UnionGoal(union, client.answers)


METHOD = Method(
    name="fedgl",
    summary="overlapping subgraphs; models, predictions, embeddings are fused (Chen et al. 2021)",
    settings=Settings,
    messages=(Globals, Update),
    replies={Globals: Update},
    check=check_request,
    release=Globals,
    networks=list_networks,
    planned=plan_releases,
    make_host=Client,
    make_server=FedGLServer,
    make_evaluator=global_goal,
)
