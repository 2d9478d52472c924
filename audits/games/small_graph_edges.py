"""Which nodes of one small client are linked, to a server that knows its records?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.base import Array, CannotAttack
from attacks.questions import SmallGraphEdges
from audits.games.base import plays
from audits.games.candidates import near_labels, small_clients
from audits.games.client_links import LinkGame
from audits.games.link_prior import link_prior
from audits.truth import Truth
from securefg.protocol.transcript import Adversary


@dataclass(frozen=True)
class EdgeGame(LinkGame):
    """Beside the AUC: the share of edges that score above every pair without one."""

    def extras(self, guess: Array) -> dict[str, float]:
        sure = guess > guess[self.truth == 0].max()
        return {**super().extras(guess), "exact_edges": float(sure[self.truth == 1].mean())}


@plays(SmallGraphEdges)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> EdgeGame:
    """All pairs of the client's nodes of which a label reaches one."""
    client = small_clients(truth, adversary)[0]
    shard = truth.experiment.shards[client]
    ids, size = shard.node_ids.numpy(), shard.graph.num_nodes
    features = shard.graph.features.numpy()
    if features.ndim != 2:
        raise CannotAttack("nodes hold several samples each")
    linked = np.zeros((size, size), bool)
    source, target = shard.graph.edge_index.numpy()
    linked[source, target] = linked[target, source] = True
    first, second = np.triu_indices(size, 1)
    near = near_labels(shard.graph)
    asked = rng.permutation(np.flatnonzero(near[first] | near[second]))
    so = linked[first[asked], second[asked]].astype(np.int64)
    if not 0 < so.sum() < len(so):
        raise CannotAttack(f"client {client} has no edge near a label, or only edges")
    pairs = np.stack([ids[first[asked]], ids[second[asked]]], 1)
    return EdgeGame(
        question=SmallGraphEdges(ids=pairs, client=client, known_ids=ids, known=features),
        metric="AUC over pairs of one small client's nodes, one of them near a label",
        unit="edge",
        truth=so,
        prior_scores=link_prior(truth, adversary, pairs, so),
    )
