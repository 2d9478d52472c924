"""Which nodes of one client are linked? Targets are pairs of its nodes, edges and non-edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.base import Array, CannotAttack
from attacks.questions import ClientLinks
from audits import metrics
from audits.games.base import BinaryGame, plays
from audits.games.link_prior import link_prior
from audits.games.victims import victim
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

MANY_PAIRS = 200_000


@dataclass(frozen=True)
class LinkGame(BinaryGame):
    """Beside the AUC: how many of the |E| best pairs are edges, and their share by chance."""

    def extras(self, guess: Array) -> dict[str, float]:
        edges = int(self.truth.sum())
        return {
            "precision_at_num_edges": metrics.precision_at_k(self.truth, guess, edges),
            "share_of_edges": edges / len(self.truth),
        }


@plays(ClientLinks)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> LinkGame:
    client = victim(truth, adversary)
    shard = truth.experiment.shards[client]
    count = shard.graph.num_nodes
    linked = np.zeros((count, count), bool)
    ends = shard.graph.edge_index.numpy()
    linked[ends[0], ends[1]] = linked[ends[1], ends[0]] = True
    first, second = np.triu_indices(count, 1)
    so = linked[first, second]
    if not so.any() or so.all():
        raise CannotAttack(f"client {client} has no edge, or only edges")
    others = rng.permutation(np.flatnonzero(~so))[: max(MANY_PAIRS - int(so.sum()), 1)]
    order = rng.permutation(np.concatenate([np.flatnonzero(so), others]))
    ids = shard.node_ids.numpy()
    pairs = np.stack([ids[first[order]], ids[second[order]]], 1)
    return LinkGame(
        question=ClientLinks(ids=pairs, client=client),
        metric="AUC over pairs of one client's nodes",
        unit="edge",
        truth=so[order].astype(np.int64),
        prior_scores=link_prior(truth, adversary, pairs, so[order].astype(np.int64)),
    )
