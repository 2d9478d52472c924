"""FedGL: federated graph learning with global self-supervision (Chen et al. 2021).

Clients hold overlapping subgraphs. Beside models they upload predictions and node embeddings; the
server fuses them into pseudo labels, which enrich the training labels, and a pseudo graph, which
complements the structure. Comments give the line numbers of the paper's Algorithm 1. Without both
halves this is federated averaging of a GCN, the paper's baseline "Federated".
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from securefg.federation.evaluation import LocalScore, score_locally
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
from securefg.methods.fedgl.goal import GlobalGoal, complemented
from securefg.methods.fedgl.messages import (
    Count,
    Globals,
    Held,
    Update,
    check,
    has_census,
    needs_holders,
    networks,
    planned,
)
from securefg.models.gcn import GcnShape, Operator, SumOf, gcn, gcn_inputs
from securefg.models.pseudo_graph import PseudoGraph, build_nearly, build_pseudo_graph, faiss
from securefg.models.training import GcnTrainer, Targets
from securefg.protocol.codec import Turn
from securefg.protocol.messages import Message
from securefg.settings.execution import TrainingSettings
from securefg.settings.methods.fedgl import Settings

# --------------------------------------------------------------------------------------- client


class Client(Host):
    """One client with its subgraph (lines 3-8)."""

    def __init__(self, site: Site[Settings]) -> None:
        (self._shard,) = site.shards
        self._settings: Settings = site.method
        self._training, self._seed, self._device = site.training, site.seed, site.device
        graph = self._shard.graph
        inputs = gcn_inputs(graph, self._settings.hidden, site.device)
        self._shape, self._adjacency, self._features = inputs
        self._labels = graph.labels.to(site.device)
        self._train = graph.split.train.to(site.device)
        self._own_targets = Targets(self._train.nonzero().flatten(), self._labels[self._train])
        self._node_ids = self._shard.node_ids.to(site.device)
        self._bare = site.bare

    def handle(self, request: Message, turn: Turn) -> Message:
        if isinstance(request, Count):
            return self._held(request)
        assert isinstance(request, Globals)
        return self._trained(request, turn)

    def _held(self, request: Count) -> Held:
        holds = size = None
        if self._settings.uploads_rows:
            ones = torch.ones(len(self._node_ids), 1, device=self._device)
            holds = self._scattered(ones, request.index_size)
        if self._settings.is_weighted_by_nodes:
            size = torch.tensor([float(len(self._node_ids))])
        return Held(holds=holds, num_nodes=size)

    def _trained(self, request: Globals, turn: Turn) -> Update:
        weights = request.weights.to(self._device)
        adjacency = self._complemented(request)  # line 5
        targets = [self._own_targets, *self._pseudo_targets(request)]
        trainer = GcnTrainer(self._shape, weights, self._training.lr, self._training.weight_decay)
        epochs, sampling = self._training.local_epochs, self._settings.sampling
        dropout, dropping = self._settings.dropout, self._stream("dropout", turn)
        if len(self._node_ids) > sampling.above:  # line 7
            terms = adjacency.terms if isinstance(adjacency, SumOf) else (self._adjacency,)
            streams = (self._stream("neighbors", turn), dropping)
            trainer.train_sampled(
                epochs, terms, self._features, targets, dropout, streams, sampling
            )
        else:
            trainer.train(epochs, adjacency, self._features, targets, dropout, dropping)
        return self._update(trainer, adjacency, request)  # lines 6 and 8

    def _stream(self, name: str, turn: Turn) -> torch.Generator:
        names = (name, self._shard.client, turn.round)
        return torch_stream(self._seed, *names, device=str(self._device))

    def _complemented(self, request: Globals) -> Operator:
        """Equation 9: A_k := A_hat_k + beta D^-1/2 A^(k) D^-1/2."""
        return complemented(self._adjacency, request, self._node_ids, self._settings)

    def _changed(self, trained: Tensor, request: Globals) -> Tensor:
        """Return the weights as they are sent: as they are, or as a change.

        Under masks the change is multiplied by the number of nodes, of which the census has the
        sum over all clients.
        """
        change = trained - request.weights.to(self._device)
        if self._bare and self._settings.is_weighted_by_nodes:
            return float(len(self._node_ids)) * change
        return change if self._settings.upload == "update" else trained

    def _pseudo_targets(self, request: Globals) -> list[Targets]:
        if request.pseudo_labels is None:
            return []
        labels = request.pseudo_labels.to(self._device)[self._node_ids].long()
        chosen = ((labels >= 0) & ~self._train).nonzero().flatten()
        return [Targets(chosen, labels[chosen], self._settings.alpha)]

    @torch.no_grad()
    def _update(self, trainer: GcnTrainer, adjacency: Operator, request: Globals) -> Update:
        sends_size = self._settings.is_weighted_by_nodes and not self._bare
        return Update(
            weights=self._changed(trainer.vector(), request)[None],
            num_nodes=torch.tensor([float(len(self._node_ids))]) if sends_size else None,
            **self._rows(trainer, adjacency, request),
        )

    def _rows(
        self, trainer: GcnTrainer, adjacency: Operator, request: Globals
    ) -> dict[str, Tensor | None]:
        """Return the rows of all nodes for the halves that are on.

        Under masks no row is multiplied by the number of nodes. Rows that are rounded to whole
        probabilities would be multiples of it, and their subset sums would show the holders.
        """
        settings = self._settings
        rows: dict[str, Tensor | None] = dict.fromkeys(("predictions", "embeddings", "holds"))
        if not settings.uploads_rows:
            return rows
        hidden, logits = gcn(trainer.weights, adjacency, self._features)
        if settings.pseudo_labels:
            probabilities = logits.softmax(-1)
            # A row that adds up to one would show who holds the node.
            rows["predictions"] = probabilities[:, :-1] if self._bare else probabilities
        if settings.pseudo_graph:
            rows["embeddings"] = logits if settings.embedding == "final" else hidden
        if needs_holders(settings) and not self._bare:
            rows["holds"] = torch.ones_like(logits[:, :1])
        size, released = request.index_size, request.released
        return {
            name: None if found is None else self._scattered(found, size, released)
            for name, found in rows.items()
        }

    def _scattered(self, rows: Tensor, index_size: int, released: Tensor | None = None) -> Tensor:
        """Rows in the global index; nodes that too few clients hold are left at zero."""
        whole = rows.new_zeros(1, index_size, rows.shape[1])
        whole[0, self._node_ids] = rows
        if released is not None:
            whole[0, ~released.to(rows.device)] = 0
        return whole

    @torch.no_grad()
    def measure(self, release: Message) -> list[LocalScore]:
        """The local goal: the global model on the client's own nodes."""
        assert isinstance(release, Globals)
        weights = self._shape.split(release.weights.to(self._device))
        _, logits = gcn(weights, self._complemented(release), self._features)
        split = self._shard.graph.split
        return [score_locally(self._shard.client, logits.cpu(), self._shard.graph.labels, split)]


# --------------------------------------------------------------------------------------- server


class FedGLServer(Server):
    """Aggregation and the discovery of global self-supervision (lines 1 and 10-16)."""

    def __init__(
        self, info: PublicInfo, settings: Settings, training: TrainingSettings, cohort: Cohort
    ) -> None:
        self._info, self._settings, self._training = info, settings, training
        self._cohort = cohort
        shape = GcnShape(info.num_features, settings.hidden, info.num_classes)
        self._globals = Globals(  # line 1
            weights=shape.initial(torch_stream(info.seed, "weights")),
            index_size=info.num_nodes,
            pseudo_labels=None,
            graph_counts=None,
            graph_columns=None,
            graph_values=None,
            released=None,
        )
        self._census: State = {}
        self._recall: float | None = None
        if settings.pseudo_graph and self._is_searched_nearly(info.num_nodes):
            faiss()  # a library that is missing is missed before anybody trains

    def round(self, number: int) -> Globals:
        clients = participants(self._info, self._training, number)
        if self._cohort.bare and has_census(self._settings) and not self._census:
            self._census = self._counted(number)
        asked = replace(self._globals, released=self._enough_holders())
        replies = require_replies(self._cohort.ask(asked, Update, clients), number)
        pseudo = self._pseudo_graph(replies, number) if number >= self._settings.warmup else None
        self._globals = Globals(
            weights=self._model(replies),  # line 11
            index_size=self._info.num_nodes,
            pseudo_labels=self._pseudo_labels(replies),
            graph_counts=pseudo.counts.cpu() if pseudo else None,
            graph_columns=pseudo.columns.cpu() if pseudo else None,
            graph_values=pseudo.values.cpu() if pseudo else None,
            released=asked.released,
        )
        return self._globals

    def _model(self, replies: Replies[Update]) -> Tensor:
        if self._sized:  # whoever is away counts as unchanged: its share is not told again
            return self._globals.weights + replies.sum("weights") / self._census["num_nodes"]
        mean = replies.mean("weights")
        return self._globals.weights + mean if self._settings.upload == "update" else mean

    @property
    def _sized(self) -> bool:
        return "num_nodes" in self._census

    def _counted(self, number: int) -> State:
        """What never changes, summed once over all clients: sums of it over other sets would give
        single clients' away."""
        count = Count(index_size=self._info.num_nodes)
        replies = require_replies(self._cohort.ask(count, Held), number)
        asked = {
            "holds": self._settings.uploads_rows,
            "num_nodes": self._settings.is_weighted_by_nodes,
        }
        return {name: replies.sum(name).round() for name, is_sent in asked.items() if is_sent}

    def _enough_holders(self) -> Tensor | None:
        """Return the nodes whose sums may be uploaded; None where no census was taken."""
        if not self._cohort.bare or not self._settings.uploads_rows:
            return None
        return self._census["holds"].flatten() >= self._cohort.min_holders

    def facts(self) -> dict[str, float]:
        found = {}
        if self._globals.released is not None:
            found["share_of_nodes_released"] = float(self._globals.released.float().mean())
        if self._recall is not None:
            found["pseudo_graph_recall"] = self._recall
        return found

    def _pseudo_labels(self, replies: Replies[Update]) -> Tensor | None:
        """Lines 12-13: fuse the predictions, keep the confident ones."""
        if not self._settings.pseudo_labels:
            return None
        confidence, label = self._fused(replies, "predictions").max(-1)
        return torch.where(confidence > self._settings.threshold, label, -1).to(torch.int16)

    def _pseudo_graph(self, replies: Replies[Update], number: int) -> PseudoGraph | None:
        """Lines 14-15: fuse the embeddings, connect the similar."""
        if not self._settings.pseudo_graph:
            return None
        fused = self._fused(replies, "embeddings").to(self._info.device)
        if self._is_searched_nearly(len(fused)):
            seed = derive_seed(self._info.seed, "pseudo_graph", number)
            near, self._recall = build_nearly(fused, self._settings.num_neighbors, seed)
            return near
        return build_pseudo_graph(fused, self._settings.num_neighbors)

    def _is_searched_nearly(self, num_nodes: int) -> bool:
        return num_nodes > self._settings.exact_nodes and self._info.device.type == "cpu"

    def _fused(self, replies: Replies[Update], field: str) -> Tensor:
        """Equations 11 and 13: sum_k N_k / M x_k; renormalised, M counts a node's holders alone."""
        if self._cohort.bare:
            return self._fused_bare(replies, field)
        if self._settings.fusion == "paper":
            return replies.mean(field)
        held = replies.sum("holds")
        return replies.sum(field) / held.clamp_min(torch.finfo(held.dtype).eps)

    def _fused_bare(self, replies: Replies[Update], field: str) -> Tensor:
        """The same from the census and from sums without what never changes: the last class is what
        the others leave of a node's holders, who are all in the sum."""
        released = self._enough_holders()
        assert released is not None
        held = self._census["holds"] * released[:, None]
        summed = replies.sum(field)
        if field == "predictions":
            last = (held - summed.sum(-1, keepdim=True)).clamp_min(0)
            summed = torch.cat([summed, last], -1)
        if self._settings.fusion == "paper":
            return summed / replies.count
        return summed / held.clamp_min(torch.finfo(held.dtype).eps)

    def state(self) -> State:
        values = self._globals.values()
        kept = {name: value for name, value in values.items() if isinstance(value, Tensor)}
        census = {f"census.{name}": value for name, value in self._census.items()}
        recall = (
            {}
            if self._recall is None
            else {"recall": torch.tensor(self._recall, dtype=torch.float64)}
        )
        return {**kept, **census, **recall}

    def restore(self, state: State) -> None:
        self._census = {
            name.removeprefix("census."): value
            for name, value in state.items()
            if name.startswith("census.")
        }
        self._recall = float(state["recall"]) if "recall" in state else None
        self._globals = Globals(
            weights=state["weights"],
            index_size=self._info.num_nodes,
            pseudo_labels=state.get("pseudo_labels"),
            graph_counts=state.get("graph_counts"),
            graph_columns=state.get("graph_columns"),
            graph_values=state.get("graph_values"),
            released=state.get("released"),
        )


METHOD = Method(
    name="fedgl",
    summary="overlapping subgraphs; models, predictions, embeddings are fused (Chen et al. 2021)",
    settings=Settings,
    messages=(Globals, Update, Count, Held),
    replies={Globals: Update, Count: Held},
    check=check,
    release=Globals,
    networks=networks,
    planned=planned,
    make_host=Client,
    make_server=FedGLServer,
    make_evaluator=GlobalGoal,
)
