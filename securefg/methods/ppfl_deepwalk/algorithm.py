"""PPFL-GNN, federated DeepWalk (Algorithm 1): clients share the embeddings of public nodes.

Public nodes are held by every client, private ones by one. Each client trains skip-gram over random
walks of its own graph and uploads its rows of the public nodes. The server aligns and averages
them. Each client writes the mean over its rows and trains on. Labels play no part until embeddings
are scored. `exchange: false` is the paper's LOC. With one client that holds the whole graph, its
"full".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from securefg.federation.evaluation import LocalScore, score_locally
from securefg.federation.roles import Cohort, Host, PublicInfo, Server, Site, State
from securefg.foundation.streams import derive_seed, numpy_stream
from securefg.methods.base import Method
from securefg.methods.ppfl.exchange import (
    MESSAGES,
    ClientRows,
    Iteration,
    Mean,
    RowServer,
    alignment_figures,
    check_request,
    list_replies,
    planned_rows,
    rows_of,
)
from securefg.methods.ppfl_deepwalk.settings import Settings
from securefg.models.probes import cross_validated_f1, held_out_f1, linear_probe
from securefg.models.skip_gram import (
    Neighbours,
    SkipGram,
    SkipGramShape,
    initial_embedding,
    random_walks,
)
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.codec import Turn
from securefg.protocol.messages import Message
from securefg.settings.execution import TrainingSettings

# ------------------------------------------------------------------------------------- settings


def plan_releases(
    settings: Settings, training: TrainingSettings, info: PublicInfo
) -> list[PlannedRelease]:
    """Return the rows that leave, and how often at most."""
    return planned_rows(settings, training, info, settings.width)


# --------------------------------------------------------------------------------------- client


class Client(Host):
    """A client with its graph and its skip-gram (lines 2-7 and 20-26)."""

    def __init__(self, site: Site[Settings]) -> None:
        (self._shard,) = site.shards
        self._settings: Settings = site.method
        self._training, self._seed = site.training, site.seed
        graph, settings = self._shard.graph, self._settings
        self._neighbours = Neighbours.of(graph.edge_index, graph.num_nodes)
        public = self._shard.public
        self._public = np.empty(0, np.int64) if public is None else public.numpy()
        shared = numpy_stream(site.seed, "public rows")
        start = initial_embedding(len(self._public), settings.dim, shared)
        own = numpy_stream(site.seed, "weights", self._shard.client)
        embedding = initial_embedding(graph.num_nodes, settings.dim, own)
        if settings.start == "shared":
            embedding[self._public] = start
        degrees = self._neighbours.degrees
        shape = SkipGramShape(settings.dim, settings.window, settings.negatives)
        self._model = SkipGram(shape, degrees, embedding)
        public_degrees = torch.from_numpy(degrees[self._public])
        self._rows = ClientRows(settings, public_degrees, torch.from_numpy(start))
        self._written = 0

    def handle(self, request: Message, turn: Turn) -> Message:
        """Take in the mean, walk, train, and reply with rows."""
        self._substitute_mean(request)
        self._train_round(turn.round)
        return self._rows.reply(request, self._own_rows())

    def _own_rows(self) -> Tensor:
        """Return the client's rows of the public nodes (lines 4-5)."""
        rows = self._model.embedding[self._public]
        if self._settings.share == "model":
            rows = np.concatenate([rows, self._model.contexts[self._public]], 1)
        return torch.from_numpy(rows)

    def _substitute_mean(self, request: Message) -> None:
        """Write the mean over the client's rows (lines 22-24). After a round that came to nothing,
        a mean written before comes again."""
        if isinstance(request, Mean) and request.made == self._written:
            return
        rows = self._rows.received(request, self._own_rows())
        if rows is not None:
            dim = self._settings.dim
            self._model.embedding[self._public] = rows[:, :dim].numpy()
            if self._settings.share == "model":
                self._model.contexts[self._public] = rows[:, dim:].numpy()
            self._written = request.made if isinstance(request, Mean) else 0

    def _train_round(self, number: int) -> None:
        """Train skip-gram over fresh walks (lines 3 and 25)."""
        stream = numpy_stream(self._seed, "walks", self._shard.client, number)
        settings, training = self._settings, self._training
        walks = random_walks(self._neighbours, training.local_epochs, settings.walk_length, stream)
        rates = (training.lr, 0.0)
        if settings.schedule == "run":
            left = 1 - (number - 1) / training.rounds
            rates = (training.lr * left, training.lr * (1 - number / training.rounds))
        self._model.train(walks, stream, *(max(rate, 1e-4) for rate in rates))

    def measure(self, release: Message) -> list[LocalScore]:
        """Return the scores of a linear probe on the client's own nodes, with its public rows to be
        compared."""
        return [self._score_model({})]

    def measure_at_end(self, release: Message) -> list[LocalScore]:
        """Return the scores of MLP and SVC, on the embeddings as they stand after the last
        round."""
        graph, embedding = self._shard.graph, torch.from_numpy(self._model.embedding)
        seed = derive_seed(self._seed, "scoring", self._shard.client)
        if self._settings.scoring == "cross_validation":
            return [self._score_model(cross_validated_f1(embedding, graph.labels, 5, seed))]
        parts = (graph.split.train, graph.split.test)
        return [self._score_model(held_out_f1(embedding, graph.labels, *parts, seed))]

    def _score_model(self, extra: dict[str, float]) -> LocalScore:
        graph, embedding = self._shard.graph, torch.from_numpy(self._model.embedding)
        logits = linear_probe(embedding, graph.labels, graph.split.train, graph.num_classes)
        score = score_locally(self._shard.client, logits, graph.labels, graph.split)
        return replace(score, extra=extra, rows=self._model.embedding[self._public].tolist())

    def state(self) -> State:
        """Return embeddings, context vectors, and which mean was taken in last."""
        return {
            "embedding": torch.from_numpy(self._model.embedding.copy()),
            "contexts": torch.from_numpy(self._model.contexts.copy()),
            "written": torch.tensor(self._written),
        }

    def restore(self, state: State) -> None:
        """Take up what `state` gave."""
        self._model.embedding[:] = state["embedding"].numpy()
        self._model.contexts[:] = state["contexts"].numpy()
        self._written = int(state["written"])


# --------------------------------------------------------------------------------------- server


class DeepWalkServer(RowServer, Server):
    """A server of lines 10-18, for embeddings, or for embeddings and contexts side by side."""

    def __init__(
        self, info: PublicInfo, settings: Settings, training: TrainingSettings, cohort: Cohort
    ) -> None:
        super().__init__(info, settings, training, cohort, settings.dim, settings.width)


METHOD = Method(
    name="ppfl_deepwalk",
    summary="public nodes at every client; their DeepWalk rows are aligned (PPFL-GNN)",
    settings=Settings,
    messages=MESSAGES,
    replies=list_replies(),
    check=check_request,
    release=Iteration,
    planned=plan_releases,
    make_host=Client,
    make_server=DeepWalkServer,
    compare=alignment_figures,
    rows_of=rows_of,
)
