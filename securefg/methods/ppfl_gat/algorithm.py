"""PPFL-GNN, federated GAT (Algorithm 2): clients share hidden rows of public nodes.

As federated DeepWalk, but the rows are the first GAT layer's output, and the mean that comes back
enters the loss, L = CE + beta (1 - cos), instead of the model. Training uses the labels of
`data.split`'s training nodes alone. With `kind: folds` every run leaves one fold unseen at all
clients, and is scored on it. `exchange: false` is the paper's LOC. With one client that holds the
whole graph, its "full".
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from securefg.federation.evaluation import LocalScore, score_locally
from securefg.federation.roles import Cohort, Host, PublicInfo, Server, Site, State
from securefg.foundation.streams import derive_seed, torch_stream
from securefg.methods.base import Method
from securefg.methods.ppfl.exchange import (
    MESSAGES,
    ClientRows,
    Iteration,
    RowServer,
    alignment_figures,
    check_request,
    list_replies,
    planned_rows,
    rows_of,
)
from securefg.methods.ppfl_gat.settings import Settings
from securefg.models.gat import PublicGat, PublicGatTrainer, Pull
from securefg.models.probes import held_out_f1
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.codec import Turn
from securefg.protocol.messages import Message
from securefg.settings.execution import TrainingSettings


def plan_releases(
    settings: Settings, training: TrainingSettings, info: PublicInfo
) -> list[PlannedRelease]:
    """Return the rows that leave, and how often at most."""
    return planned_rows(settings, training, info, settings.hidden)


# --------------------------------------------------------------------------------------- client


class Client(Host):
    """A client with its graph and its GAT."""

    def __init__(self, site: Site[Settings]) -> None:
        (self._shard,) = site.shards
        self._settings: Settings = site.method
        self._training, self._seed, self._device = site.training, site.seed, site.device
        graph, settings = self._shard.graph, self._settings
        self._network = PublicGat(graph, settings.hidden, settings.heads, site.device)
        names = () if settings.start == "shared" else (self._shard.client,)
        weights = self._network.initial(torch_stream(site.seed, "weights", *names))
        weights = tuple(w.to(site.device) for w in weights)
        training = self._training
        self._trainer = PublicGatTrainer(self._network, weights, training.lr, training.weight_decay)
        public = self._shard.public
        none = torch.empty(0, dtype=torch.long)
        self._public = (none if public is None else public).to(site.device)
        self._train = graph.split.train.nonzero()[:, 0].to(site.device)
        self._classes = graph.labels.to(site.device)[self._train]
        degrees = torch.bincount(graph.edge_index[0], minlength=graph.num_nodes)
        # Public nodes' features are everywhere, so all clients know what a shared start makes of
        # them before any edge plays a part.
        common = self._network.hidden_without_edges(weights)[self._public]
        public_degrees = degrees.to(site.device)[self._public]
        self._rows = ClientRows(settings, public_degrees, common)

    def handle(self, request: Message, turn: Turn) -> Message:
        """Take in the mean, train, and reply with rows."""
        self._learn_round(request, turn.round)
        return self._rows.reply(request, self._hidden_rows()[self._public])

    def _learn_round(self, request: Message, number: int) -> None:
        towards = self._rows.received(request, self._hidden_rows()[self._public])
        pull = None if towards is None else Pull(self._public, towards, self._settings.beta)
        stream = torch_stream(
            self._seed, "dropout", self._shard.client, number, device=str(self._device)
        )
        self._trainer.train(
            self._training.local_epochs,
            self._train,
            self._classes,
            pull,
            self._settings.dropout,
            stream,
        )

    @torch.no_grad()
    def _hidden_rows(self) -> Tensor:
        return self._network.hidden(self._trainer.weights)

    def measure(self, release: Message) -> list[LocalScore]:
        """Return the scores of the GAT's own predictions on the client's nodes, with its public
        rows to be compared."""
        return [self._score_model({})]

    def measure_at_end(self, release: Message) -> list[LocalScore]:
        """Return the scores of MLP and SVC on the hidden rows, fitted to the training nodes, scored
        on the fold that nobody trained on."""
        graph, seed = self._shard.graph, derive_seed(self._seed, "scoring", self._shard.client)
        parts = (graph.split.train, graph.split.test)
        return [self._score_model(held_out_f1(self._hidden_rows(), graph.labels, *parts, seed))]

    @torch.no_grad()
    def _score_model(self, extra: dict[str, float]) -> LocalScore:
        graph, hidden = self._shard.graph, self._hidden_rows()
        logits = self._network.scores(hidden, self._trainer.weights)
        score = score_locally(self._shard.client, logits.cpu(), graph.labels, graph.split)
        return replace(score, extra=extra, rows=hidden[self._public].tolist())

    def state(self) -> State:
        """Return the weights and what the optimizer keeps."""
        return self._trainer.state()

    def restore(self, state: State) -> None:
        """Take up what `state` gave."""
        self._trainer.restore(state)


# --------------------------------------------------------------------------------------- server


class GatServer(RowServer, Server):
    """A server, the same as federated DeepWalk's."""

    def __init__(
        self, info: PublicInfo, settings: Settings, training: TrainingSettings, cohort: Cohort
    ) -> None:
        super().__init__(info, settings, training, cohort, settings.hidden, settings.hidden)


METHOD = Method(
    name="ppfl_gat",
    summary="public nodes at every client; their hidden GAT rows are aligned (PPFL-GNN)",
    settings=Settings,
    messages=MESSAGES,
    replies=list_replies(),
    check=check_request,
    release=Iteration,
    planned=plan_releases,
    make_host=Client,
    make_server=GatServer,
    compare=alignment_figures,
    rows_of=rows_of,
)
