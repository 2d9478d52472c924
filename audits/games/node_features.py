"""What are a node's features, when those of some other nodes are known from elsewhere?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack
from attacks.questions import NodeFeatures
from audits.games.base import OutcomeGame, choose, plays, victim
from audits.games.kriging import KNOWN_SHARE, MANY_KNOWN, kriged
from audits.known_graph import known_edges
from audits.truth import Truth
from securefg.foundation.ranks import row_ranks
from securefg.protocol.transcript import Adversary

MANY_TARGETS = 100


@dataclass(frozen=True)
class FeatureGame(OutcomeGame):
    """Beside the metric: how many rows were recovered in all their entries."""

    def extras(self, guess: Array) -> dict[str, float]:
        size = np.abs(self.truth).max(1, keepdims=True)
        return {"exact_rows": float((np.abs(guess - self.truth) < 1e-3 * size).all(1).mean())}


@plays(NodeFeatures)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> FeatureGame:
    """Prior: the mean of the known nodes' features, and for whoever knows the graph what they tell
    of their neighbours'. Nodes are one client's, or one of every client's where each holds one."""
    client, nodes = _population(truth, adversary)
    if truth.graph.features.dim() != 2:
        raise CannotAttack("nodes hold several samples each; there is no one row to recover")
    features = truth.features()
    nodes = choose(nodes[np.abs(features[nodes]).sum(1) > 0], len(nodes), rng, 20)
    count = min(MANY_KNOWN, int(KNOWN_SHARE * len(nodes)))
    known, wanted = nodes[:count], nodes[count : count + MANY_TARGETS]
    rows = features[known]
    edges = known_edges(truth, adversary)
    prior = kriged(rows.astype(np.float64), known, wanted, edges, len(features))
    sparse = (features[wanted] == 0).mean() > 0.5
    return FeatureGame(
        question=NodeFeatures(
            ids=wanted, client=client, known_ids=known, known=rows, known_prior=prior.known
        ),
        metric="AUC over a node's words, mean of nodes" if sparse else "cosine with the features",
        unit="row",
        truth=features[wanted],
        outcome=words_found if sparse else resembles,
        prior_guess=prior.wanted,
    )


def _population(truth: Truth, adversary: Adversary) -> tuple[int | None, NDArray[np.int64]]:
    partition = truth.experiment.partition
    if int(partition.sizes.max()) == 1:
        mine = set(adversary.clients)
        return None, np.array([k for k in range(partition.num_clients) if k not in mine])
    client = victim(truth, adversary)
    return client, truth.experiment.shards[client].node_ids.numpy()


def words_found(guess: Array, truth: NDArray[np.float32]) -> Array:
    """Row by row: the AUC of the guess for which entries are not zero."""
    so = truth != 0
    ranks = row_ranks(guess)
    ones, total = so.sum(1), so.shape[1]
    top = (ranks * so).sum(1) - ones * (ones + 1) / 2
    found: Array = top / np.maximum(ones * (total - ones), 1)
    return found.clip(0, 1)


def resembles(guess: Array, truth: NDArray[np.float32]) -> Array:
    """Row by row: the cosine, zero where it is negative."""
    norms = np.linalg.norm(guess, axis=1) * np.linalg.norm(truth, axis=1)
    found: Array = (guess * truth).sum(1) / np.maximum(norms, 1e-12)
    return found.clip(0, 1)
