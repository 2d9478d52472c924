"""FedGL with many settings at once, as one tensor: one seed, one partition, other settings.

Runs of one seed differ in what they learn from, not in their data: the clients' shards and the
draws of dropout are named by seed, client and round alone. The networks of all runs stand side by
side, so a client's features are thinned and multiplied once for all of them, X [W0_1 ... W0_S].
A run learns what the engine would teach it, to rounding (`tests/unit/papers/test_fedgl_batch.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from securefg.data.graph import Graph
from securefg.federation.evaluation import Scores, score_logits
from securefg.foundation.streams import derive_seed, torch_stream
from securefg.methods.base import participants
from securefg.methods.fedgl.settings import Settings
from securefg.models.gcn import GcnShape, gcn_inputs
from securefg.models.pseudo_graph import Degree, PseudoGraph, build_pseudo_graph
from securefg.models.sparse import DenseMatrix, make_csr
from securefg.runs.assembly import Experiment, prepare
from securefg.runs.best import Best
from securefg.settings.config import RunConfig
from securefg.settings.privacy import NO_DEFENCE

Matrix = Any  # of SciPy: its types do not know float32
BETAS, EPS = (0.9, 0.999), 1e-8
CPU = torch.device("cpu")
BLOCK = 1 << 19  # entries of H H^T at a time: they stay in the cache


def run_batch(configs: Sequence[RunConfig]) -> dict[str, float]:
    """Return the test accuracy in percent of every run that a batch can make, by its hash."""
    accuracy_by_hash: dict[str, float] = {}
    for group in groups_of(configs):
        for run in Together(group).finish():
            accuracy_by_hash[run.config.hash] = 100 * run.test_accuracy
    return accuracy_by_hash


def groups_of(configs: Iterable[RunConfig]) -> list[list[RunConfig]]:
    """Return the configs that a batch can make, those of one partition together."""
    groups: dict[str, dict[str, RunConfig]] = {}
    for config in configs:
        if fits(config):
            groups.setdefault(_alike(config), {})[config.hash] = config
    return [list(group.values()) for group in groups.values()]


def fits(config: RunConfig) -> bool:
    """Return whether a batch makes this run: FedGL as the paper runs it, on whole sparse graphs."""
    settings = config.method
    return (
        isinstance(settings, Settings)
        and not config.centralised
        and (settings.fusion, settings.embedding, settings.upload) == ("paper", "final", "model")
        and settings.is_weighted_by_nodes
        and config.privacy.mechanism == NO_DEFENCE
        and config.privacy.secure_aggregation is None
    )


def _alike(config: RunConfig) -> str:
    """Return what all runs of a batch have in common, as text."""
    settings = config.method
    assert isinstance(settings, Settings)
    data = config.data.model_dump(exclude={"split"})
    training = config.training.model_dump(exclude={"participation", "patience", "monitor"})
    networks = settings.hidden, settings.dropout
    return repr((config.seed, data, config.partition.model_dump(), training, networks))


@dataclass
class Run:
    """One run of a batch: its settings, its global model, and the best of it so far."""

    config: RunConfig
    experiment: Experiment
    settings: Settings
    weights: Tensor
    pseudo_labels: Tensor | None = None
    graph: Matrix | None = None
    best: Best = field(default_factory=Best)
    scores: Scores | None = None
    ended: bool = False

    @classmethod
    def of(cls, config: RunConfig, shape: GcnShape) -> Run:
        """Return the run before its first round."""
        settings, experiment = config.method, prepare(config)
        assert isinstance(settings, Settings)
        return cls(
            experiment.config,
            experiment,
            settings,
            shape.initial(torch_stream(experiment.public.seed, "weights")),
        )

    @property
    def test_accuracy(self) -> float:
        """Return the test accuracy of the best round."""
        return 0.0 if self.scores is None else self.scores.test_accuracy

    def connect(self, embeddings: Tensor) -> Matrix:
        """Return the pseudo graph of the fused embeddings."""
        return whole_graph(build_pseudo_graph(embeddings, self.settings.num_neighbors, BLOCK))

    @property
    def scored_graph(self) -> Matrix | None:
        """Return the pseudo graph that the global model is scored with."""
        return self.graph

    def score(self, number: int, scores: Scores) -> None:
        """Note the scores of a round, and whether the run ends with it."""
        training, before = self.config.training, self.best.round
        self.best.keep(number, scores, "", b"", training)
        if self.best.round != before:
            self.scores = scores
        done = number >= training.rounds
        self.ended = done or self.best.is_stale(number, training.patience)


class Shard:
    """A client's part of the graph, the same for all runs."""

    def __init__(self, graph: Graph, node_ids: Tensor, hidden: int) -> None:
        self.node_ids, self.num_nodes = node_ids, graph.num_nodes
        _, self.adjacency, self.features = gcn_inputs(graph, hidden, CPU)
        self._values = self.features.values.numpy()

    def thinned(self, keep: Tensor, scale: float) -> tuple[Any, Any]:
        """Return the kept entries of the features, and the same transposed."""
        features, factor = self.features, np.float32(scale)
        if isinstance(features, DenseMatrix):
            left = self._values * keep.numpy() * factor
            return left, left.T
        places = np.flatnonzero(keep.numpy())
        starts = np.searchsorted(places, features.rows.numpy()).astype(np.int32)
        parts = (self._values[places] * factor, features.columns.numpy()[places], starts)
        kept = sparse.csr_array(parts, shape=features.shape, copy=False)
        return kept, kept.T


@dataclass
class Complement:
    """A pseudo graph among the nodes of a client, both ways, and its rows with targets alone."""

    forward: Tensor
    backward: Tensor
    rows: Tensor
    rows_forward: Tensor
    rows_backward: Tensor

    @classmethod
    def of(cls, matrix: Matrix, rows: Tensor) -> Complement:
        """Return a complement whose second layer is needed at `rows` alone."""
        part = matrix[rows.numpy()]
        return cls(_mkl(matrix), _mkl(matrix.T), rows, _mkl(part), _mkl(part.T))


def whole_graph(graph: PseudoGraph) -> Matrix:
    """Return a pseudo graph over all nodes as SciPy's matrix."""
    starts = np.concatenate([[0], graph.counts.numpy().cumsum()]).astype(np.int32)
    size = len(graph.counts)
    parts = (graph.values.numpy(), graph.columns.int().numpy(), starts)
    return sparse.csr_array(parts, shape=(size, size), copy=False)


def projection(graph: Matrix, node_ids: Tensor, scale: float, degree: Degree) -> Matrix:
    """Return `pseudo_graph.projected` of a pseudo graph, by SciPy's own indexing."""
    nodes = node_ids.numpy()
    own_graph = graph if len(nodes) == graph.shape[0] else graph[nodes][:, nodes]
    counts = np.diff(own_graph.indptr)
    degrees = counts if degree == "count" else own_graph.sum(1)
    roots = np.zeros(len(nodes), np.float32)
    np.divide(scale**0.5, np.sqrt(degrees), out=roots, where=degrees > 0, casting="unsafe")
    data = np.repeat(roots, counts) * own_graph.data * roots[own_graph.indices]
    return sparse.csr_array(
        (data, own_graph.indices, own_graph.indptr), shape=own_graph.shape, copy=False
    )


def _mkl(matrix: Matrix) -> Tensor:
    csr_matrix: Any = sparse.csr_array(matrix)
    starts, columns = (
        torch.from_numpy(part.astype(np.int32)) for part in (csr_matrix.indptr, csr_matrix.indices)
    )
    return make_csr(starts, columns, torch.from_numpy(csr_matrix.data), csr_matrix.shape)


class Together:
    """All runs of one seed and partition, round by round."""

    def __init__(self, configs: Sequence[RunConfig]) -> None:
        first = prepare(configs[0])
        union, settings = first.union, configs[0].method
        assert isinstance(settings, Settings)
        self._shape = GcnShape(union.num_features, settings.hidden, union.num_classes)
        self._hidden, self._dropout = settings.hidden, settings.dropout
        self._seed = derive_seed(configs[0].seed, "clients")
        self._training = configs[0].training
        self.runs = [self.make_run(config) for config in configs]
        self._shards = [Shard(s.graph, s.node_ids, settings.hidden) for s in first.shards]
        self._union = Shard(union, torch.arange(union.num_nodes), settings.hidden)
        self._targets = {id(run): self._own_targets(run) for run in self.runs}

    def make_run(self, config: RunConfig) -> Run:
        """Return the run of a config before its first round."""
        return Run.of(config, self._shape)

    def _own_targets(self, run: Run) -> list[tuple[Tensor, Tensor]]:
        graphs = [shard.graph for shard in run.experiment.shards]
        return [(graph.labels, graph.split.train) for graph in graphs]

    def finish(self) -> list[Run]:
        """Run all rounds of all runs. Return the runs."""
        number = 0
        while any(not run.ended for run in self.runs):
            number += 1
            self.round(number)
        return self.runs

    @torch.no_grad()
    def round(self, number: int) -> None:
        """Do one round of every run that has not ended."""
        active = [run for run in self.runs if not run.ended]
        sums = {id(run): Fusion(run, self._union.num_nodes, self._shape) for run in active}
        asked = {
            id(run): participants(run.experiment.public, run.config.training, number).numbers()
            for run in active
        }
        for client, shard in enumerate(self._shards):
            runs = [run for run in active if client in asked[id(run)]]
            if runs:
                self._train(client, shard, runs, number, sums)
        for run in active:
            sums[id(run)].apply(number)
        for run, scores in zip(active, self._scored(active), strict=True):
            run.score(number, scores)

    def _train(
        self, client: int, shard: Shard, runs: list[Run], number: int, sums: dict[int, Fusion]
    ) -> None:
        """Train every run's model at one client, and add what the client uploads."""
        targets = [self._targets_of(run, client, shard) for run in runs]
        wanted, factor = (torch.stack(part, 1) for part in zip(*targets, strict=True))
        complements = [
            self._complement(run, run.graph, shard, f)
            for run, (_, f) in zip(runs, targets, strict=True)
        ]
        networks = Networks(self._shape, torch.stack([run.weights for run in runs]))
        stream = torch_stream(self._seed, "dropout", client, number)
        learning = [bool((f > 0).any()) for _, f in targets]
        about = (shard, complements, wanted, factor)
        for _ in range(self._training.local_epochs if any(learning) else 0):
            gradients = networks.gradients(*about, self._dropout, stream)
            networks.step(gradients, self._training.lr, self._training.weight_decay)
        logits = networks.logits(shard, complements)
        trained = networks.vectors()
        for place, run in enumerate(runs):
            vector = trained[place] if learning[place] else run.weights
            sums[id(run)].add(shard, vector, logits[place])

    def _targets_of(self, run: Run, client: int, shard: Shard) -> tuple[Tensor, Tensor]:
        """Return classes times factors (n, C), and the factor of every node in the loss (n,)."""
        labels, train = self._targets[id(run)][client]
        sets = [(train, labels, 1.0)]
        if run.pseudo_labels is not None:
            found = run.pseudo_labels[shard.node_ids]
            sets.append(((found >= 0) & ~train, found, run.settings.alpha))
        factor = torch.zeros(shard.num_nodes)
        wanted = torch.zeros(shard.num_nodes, self._shape.num_classes)
        for chosen, classes, weight in sets:
            nodes = chosen.nonzero().flatten()
            share = weight if run.settings.loss == "sum" else weight / max(len(nodes), 1)
            factor[nodes] = share
            wanted[nodes, classes[nodes]] = share
        return wanted, factor

    def _complement(
        self, run: Run, graph: Matrix | None, shard: Shard, factor: Tensor
    ) -> Complement | None:
        if graph is None:
            return None
        settings = run.settings
        matrix = projection(graph, shard.node_ids, settings.beta, settings.degree)
        return Complement.of(matrix, factor.nonzero().flatten())

    def _scored(self, runs: list[Run]) -> list[Scores]:
        networks = Networks(self._shape, torch.stack([run.weights for run in runs]))
        everything = torch.ones(self._union.num_nodes)
        complements = [
            self._complement(run, run.scored_graph, self._union, everything) for run in runs
        ]
        logits = networks.logits(self._union, complements)
        unions = [run.experiment.union for run in runs]
        return [
            score_logits(own, union.labels, union.split)
            for own, union in zip(logits, unions, strict=True)
        ]


class Fusion:
    """What the server adds up for one run in one round."""

    def __init__(self, run: Run, num_nodes: int, shape: GcnShape) -> None:
        self._run, self._total = run, 0.0
        self._weights = torch.zeros(shape.num_parameters)
        self._predictions = torch.zeros(num_nodes, shape.num_classes)
        self._embeddings = torch.zeros(num_nodes, shape.num_classes)

    def add(self, shard: Shard, weights: Tensor, logits: Tensor) -> None:
        """Add a client's upload, weighted by its number of nodes."""
        size = float(shard.num_nodes)
        self._total += size
        self._weights += size * weights
        if self._run.settings.pseudo_labels:
            self._predictions[shard.node_ids] += size * logits.softmax(-1)
        if self._run.settings.pseudo_graph:
            self._embeddings[shard.node_ids] += size * logits

    def apply(self, number: int) -> None:
        """Give the run its new model, pseudo labels and pseudo graph."""
        run, settings = self._run, self._run.settings
        run.weights = self._weights / self._total
        if settings.pseudo_labels:
            confidence, label = (self._predictions / self._total).max(-1)
            run.pseudo_labels = torch.where(confidence > settings.threshold, label, -1)
        if settings.pseudo_graph and number >= settings.warmup:
            run.graph = run.connect(self._embeddings / self._total)


class Networks:
    """The two-layer GCNs of S runs: W0 (d, S h) and W1 (S, h, C), with fresh moments of Adam."""

    def __init__(self, shape: GcnShape, vectors: Tensor) -> None:
        first, second = zip(*(shape.split(vector) for vector in vectors), strict=True)
        self._count, self._hidden, self._classes = len(vectors), shape.hidden, shape.num_classes
        self._first, self._second = torch.cat(first, 1), torch.stack(second)
        own = (self._first, self._second)
        self._moments = [(torch.zeros_like(w), torch.zeros_like(w)) for w in own]
        self._steps = 0

    def vectors(self) -> Tensor:
        """Return every network's flat vector."""
        first = self._first.view(-1, self._count, self._hidden).transpose(0, 1)
        return torch.cat([first.flatten(1), self._second.flatten(1)], 1)

    def logits(self, shard: Shard, complements: Sequence[Complement | None]) -> Tensor:
        """Return the logits of all nodes of a shard without dropout, (S, n, C)."""
        mixed = shard.features.product(self._first)
        hidden = self._first_layer(shard, mixed, complements).relu_()
        by_class = torch.bmm(self._by_run(hidden), self._second)
        scores = self._columns(by_class)
        class_logits = self._by_class(shard.adjacency.product(scores)).clone()
        for place, complement in enumerate(complements):
            if complement is not None:
                class_logits[place] += complement.forward @ by_class[place].contiguous()
        return class_logits

    def gradients(
        self,
        shard: Shard,
        complements: Sequence[Complement | None],
        wanted: Tensor,
        factor: Tensor,
        dropout: float,
        stream: torch.Generator,
    ) -> tuple[Tensor, Tensor]:
        """Return the gradients by W0 and W1: those of `training.gcn_gradients`, run by run.

        wanted  (n, S, C) classes times factors;  factor  (n, S)
        """
        scale = 1 / (1 - dropout)
        keep = torch.rand(shard.features.values.shape, generator=stream) >= dropout
        features, transposed = shard.thinned(keep, scale)
        mixed = torch.from_numpy(features @ self._first.numpy())
        hidden = self._first_layer(shard, mixed, complements).relu_()
        kept = torch.rand(shard.num_nodes, self._hidden, generator=stream).ge_(dropout)
        kept.mul_(scale)
        hidden.view(-1, self._count, self._hidden).mul_(kept[:, None])
        active = self._by_run(hidden)
        by_class = torch.bmm(active, self._second)
        logits = shard.adjacency.product(self._columns(by_class))
        logits = logits.view(-1, self._count, self._classes)
        for place, complement_part in enumerate(complements):
            if complement_part is not None:
                logits[complement_part.rows, place] += (
                    complement_part.rows_forward @ by_class[place].contiguous()
                )
        slope = _softmax(logits).mul_(factor[..., None]).sub_(wanted)
        by_mixed = self._by_class(shard.adjacency.product(slope.flatten(1))).contiguous()
        for place, complement_part in enumerate(complements):
            if complement_part is not None:
                by_mixed[place] += (
                    complement_part.rows_backward @ slope[complement_part.rows, place]
                )
        by_second = torch.bmm(active.transpose(1, 2), by_mixed)
        by_active = self._columns(torch.bmm(by_mixed, self._second.transpose(1, 2)))
        by_hidden = torch.ops.aten.threshold_backward(by_active, hidden, 0).mul_(scale)
        by_mixed_first = shard.adjacency.product(by_hidden)
        for place, complement_part in enumerate(complements):
            if complement_part is not None:
                own = self._own(place)
                by_mixed_first[:, own] += complement_part.backward @ by_hidden[:, own].contiguous()
        by_first = torch.from_numpy(transposed @ by_mixed_first.numpy())
        return by_first, by_second

    def step(self, gradients: tuple[Tensor, Tensor], lr: float, decay: float) -> None:
        """Take one step of Adam, with L2 on the first matrices alone."""
        self._steps += 1
        count = torch.tensor(float(self._steps))
        own = (self._first, self._second)
        parts = zip(own, gradients, self._moments, (decay, 0.0), strict=True)
        for weights, gradient, (first, second), weight_decay in parts:
            torch._fused_adam_(
                *([weights], [gradient.contiguous()], [first], [second], [], [count]),
                lr=lr,
                beta1=BETAS[0],
                beta2=BETAS[1],
                weight_decay=weight_decay,
                eps=EPS,
                amsgrad=False,
                maximize=False,
            )

    def _first_layer(
        self, shard: Shard, mixed: Tensor, complements: Sequence[Complement | None]
    ) -> Tensor:
        hidden = shard.adjacency.product(mixed)
        for place, one in enumerate(complements):
            if one is not None:
                own = self._own(place)
                hidden[:, own] += one.forward @ mixed[:, own].contiguous()
        return hidden

    def _own(self, place: int) -> slice:
        return slice(place * self._hidden, (place + 1) * self._hidden)

    def _by_run(self, rows: Tensor) -> Tensor:
        """Return (n, S h) seen as (S, n, h)."""
        return rows.view(-1, self._count, self._hidden).transpose(0, 1)

    def _by_class(self, rows: Tensor) -> Tensor:
        """Return (n, S C) seen as (S, n, C)."""
        return rows.view(-1, self._count, self._classes).transpose(0, 1)

    def _columns(self, by_run: Tensor) -> Tensor:
        """Return (S, n, c) as (n, S c)."""
        return by_run.transpose(0, 1).flatten(1).contiguous()


def _softmax(logits: Tensor) -> Tensor:
    """Return the softmax in place. PyTorch's own is slow where the last axis is short."""
    shares = logits.sub_(logits.amax(-1, keepdim=True)).exp_()
    return shares.div_(shares.sum(-1, keepdim=True))
