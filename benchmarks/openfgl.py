"""OpenFGL's published setting: its loop and ours in one run, CPU-seconds and accuracy.

    python benchmarks/openfgl.py

10 Louvain clients of Cora, GCN with 64 hidden units, 100 rounds of 3 epochs, FedAvg, 20/40/40 % of
every class. Ours has messages, ledger and transcript on, and scores after every round. OpenFGL is
on no package index, so `Theirs` does a round's work as its source does it, with the parts it is
made of: torch-geometric's GCNConv on dense features, one torch Adam per client that lives through
the run, and after every round losses and accuracies of each client's model on its own three parts.
Both sides have the same clients and start once everything is loaded; they take turns, seed by seed.
Scored of ours: the global model of the round with the best validation score, on every client's own
graph and test nodes, pooled over the clients; and the same model on the union graph. Of theirs: the
clients' own models, as it scores them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from limits import Row
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GCNConv

from securefg.data.shard import Shard
from securefg.runs import runner
from securefg.runs.assembly import Experiment, prepare
from securefg.runs.observing import Silent
from securefg.runs.summary import Summary
from securefg.settings.config import RunConfig, load_config

HIDDEN, DROPOUT = 64, 0.5


class Clock(Silent):
    """CPU time from the moment everything is loaded."""

    began = 0.0

    def started(self, experiment: Experiment, first_round: int) -> None:
        self.began = time.process_time()


class Gcn(nn.Module):
    """Two layers on dense features; dropout on the hidden layer alone."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.first = GCNConv(num_features, HIDDEN)
        self.second = GCNConv(HIDDEN, num_classes)

    def forward(self, features: Tensor, edges: Tensor) -> Tensor:
        hidden = self.first(features, edges).relu()
        hidden = functional.dropout(hidden, DROPOUT, self.training)
        logits: Tensor = self.second(hidden, edges)
        return logits


class Trainer:
    """One client of theirs."""

    def __init__(self, shard: Shard, config: RunConfig) -> None:
        graph, training = shard.graph, config.training
        self._features, self._labels = graph.features.float(), graph.labels
        self._edges, self._split = graph.edge_index, graph.split
        self._epochs, self.size = training.local_epochs, graph.num_nodes
        self.model = Gcn(graph.num_features, graph.num_classes)
        self._optimizer = torch.optim.Adam(
            self.model.parameters(), lr=training.lr, weight_decay=training.weight_decay
        )

    def train(self, given: Sequence[Tensor]) -> None:
        with torch.no_grad():
            for own, sent in zip(self.model.parameters(), given, strict=True):
                own.copy_(sent)
        self.model.train()
        chosen = self._split.train
        for _ in range(self._epochs):
            self._optimizer.zero_grad()
            logits = self.model(self._features, self._edges)
            functional.cross_entropy(logits[chosen], self._labels[chosen]).backward()
            self._optimizer.step()

    @torch.no_grad()
    def score(self) -> tuple[float, float]:
        """Accuracy in validation and test; losses and training accuracy are computed as there."""
        self.model.eval()
        logits = self.model(self._features, self._edges)
        found = []
        for part in (self._split.train, self._split.val, self._split.test):
            rows, labels = logits[part], self._labels[part]
            functional.cross_entropy(rows, labels)
            found.append(float((rows.argmax(-1) == labels).float().mean()) if len(rows) else 0.0)
        return found[1], found[2]


class Theirs:
    """Federated averaging by number of nodes, scored after every round."""

    def __init__(self, experiment: Experiment, config: RunConfig) -> None:
        torch.manual_seed(config.seed)
        self._rounds = config.training.rounds
        self._clients = [Trainer(shard, config) for shard in experiment.shards]
        graph = experiment.union
        self._model = Gcn(graph.num_features, graph.num_classes)

    def run(self) -> float:
        """Test accuracy of the round that was best in validation, mean weighed by nodes."""
        total = sum(client.size for client in self._clients)
        best = (0.0, 0.0)
        for _ in range(self._rounds):
            for client in self._clients:
                client.train(list(self._model.parameters()))
            self._average(total)
            scores = [(client.size / total, *client.score()) for client in self._clients]
            validation = sum(share * found for share, found, _ in scores)
            best = max(best, (validation, sum(share * found for share, _, found in scores)))
        return best[1]

    @torch.no_grad()
    def _average(self, total: int) -> None:
        for turn, client in enumerate(self._clients):
            share = client.size / total
            for own, sent in zip(self._model.parameters(), client.model.parameters(), strict=True):
                own.copy_(share * sent if turn == 0 else own + share * sent)


def setting(seed: int, root: str) -> RunConfig:
    overrides = [f"seed={seed}", f"output.root={root}"]
    return load_config(Path("configs/fedgl_cora_louvain.yaml"), overrides)


def ours(seed: int) -> tuple[float, Summary]:
    """CPU seconds of the loop, and what came out."""
    with tempfile.TemporaryDirectory() as root:
        clock = Clock()
        summary = runner.start(setting(seed, root), clock).summary
        assert summary is not None
        return time.process_time() - clock.began, summary


def theirs(seed: int) -> tuple[float, float]:
    """CPU seconds of the loop, and accuracy."""
    with tempfile.TemporaryDirectory() as root:
        config = setting(seed, root)
        loop = Theirs(prepare(config), config)
    began = time.process_time()
    accuracy = loop.run()
    return time.process_time() - began, accuracy


def rows() -> list[Row]:
    name = "FedAvg on Cora, 100 rounds: OpenFGL's loop over ours, CPU"
    return [Row(name, 4.0, theirs(0)[0] / ours(0)[0], "x", least=True)]


def main(seeds: int = 3) -> None:
    for seed in range(seeds):
        (peer, accuracy), (seconds, summary) = theirs(seed), ours(seed)
        print(
            f"seed {seed}: theirs {peer:.1f} CPU-seconds, accuracy {accuracy:.4f}; "
            f"ours {seconds:.1f}, {peer / seconds:.1f}x, "
            f"clients' own test nodes {summary.local_test_accuracy.pooled:.4f}, "
            f"union graph {summary.test_accuracy:.4f}"
        )


if __name__ == "__main__":
    main()
