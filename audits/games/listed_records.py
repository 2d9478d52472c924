"""Which records of a list are in a client's graph? Some small clients, and a list with decoys.

Targets are pairs of a client k and record c of a list of n, as k n + c: all nodes of the client,
and `DECOYS` times as many that it does not hold. Prior: how many clients hold the record.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack
from attacks.questions import ListedRecords
from audits.games.base import BinaryGame, plays
from audits.truth import Truth
from securefg.data.graph import Graph
from securefg.protocol.transcript import Adversary

MANY_CLIENTS, MANY_NODES, DECOYS = 6, 200, 2
LEAST = 3


@dataclass(frozen=True)
class RecordGame(BinaryGame):
    """Beside the AUC: the share of the clients' records that score above every decoy, and the same
    of those that a label reaches in one step."""

    reached: NDArray[np.bool_] | None = None

    def extras(self, guess: Array) -> dict[str, float]:
        sure = guess > guess[self.truth == 0].max()
        found = {"exact_nodes": float(sure[self.truth == 1].mean())}
        if self.reached is not None and self.reached.any():
            found["exact_nodes_near_labels"] = float(sure[self.reached].mean())
        return found


@plays(ListedRecords)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> RecordGame:
    chosen = small_clients(truth, adversary)[:MANY_CLIENTS]
    features, size = truth.features(), truth.graph.num_nodes
    if features.ndim != 2:
        raise CannotAttack("nodes hold several samples each")
    held = np.unique(truth.experiment.partition.nodes.numpy())
    ids, so, near = [], [], []
    for client in chosen:
        shard = truth.experiment.shards[client]
        own = shard.node_ids.numpy()
        others = rng.permutation(np.setdiff1d(held, own))[: DECOYS * len(own)]
        ids.append(client * size + np.concatenate([own, others]))
        so.append(np.arange(len(own) + len(others)) < len(own))
        near.append(np.concatenate([near_labels(shard.graph), np.zeros(len(others), bool)]))
    if all(side.all() for side in so):
        raise CannotAttack("the small clients hold every node: no other record is left to compare")
    order = rng.permutation(sum(map(len, ids)))
    found = np.concatenate(ids)[order]
    holders = np.bincount(truth.experiment.partition.nodes.numpy(), minlength=size)
    return RecordGame(
        question=ListedRecords(ids=found, known_ids=np.arange(size), known=features),
        metric="AUC over records of a client's graph and others",
        unit="record",
        truth=np.concatenate(so)[order].astype(np.int64),
        prior_scores=holders[found % size].astype(np.float64),
        reached=np.concatenate(near)[order],
    )


def small_clients(truth: Truth, adversary: Adversary) -> list[int]:
    """Clients with a label and an edge, of few nodes; those with the most labels first."""
    labels = {}
    for client, count in enumerate(truth.experiment.partition.sizes):
        if client in adversary.clients or not LEAST <= int(count) <= MANY_NODES:
            continue
        graph = truth.experiment.shards[client].graph
        trained = int(graph.split.train.sum())
        if trained and graph.num_edges:
            labels[client] = trained
    if not labels:
        raise CannotAttack(f"no client with a label and an edge has {LEAST} to {MANY_NODES} nodes")
    return sorted(labels, key=lambda k: -labels[k])


def near_labels(graph: Graph) -> NDArray[np.bool_]:
    """Labelled nodes, and those whose rows reach one in a step."""
    train: NDArray[np.bool_] = graph.split.train.reshape(graph.num_nodes, -1).any(1).numpy()
    source, target = graph.edge_index.numpy()
    found = train.copy()
    found[source[train[target]]] = True
    return found
