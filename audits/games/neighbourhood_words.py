"""Which words occur at a node or its neighbours, as one client holds them?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array
from attacks.questions import NeighbourhoodWords
from audits.games.base import OutcomeGame, choose, other_nodes, plays, victim
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

MANY_TARGETS = 60


@plays(NeighbourhoodWords)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> OutcomeGame:
    """Prior: the words that are most frequent in the nodes that this client does not hold."""
    client = victim(truth, adversary)
    shard = truth.experiment.shards[client]
    used = used_words(shard.graph.features.numpy())
    around = used.copy()
    source, target = shard.graph.edge_index.numpy()
    np.logical_or.at(around, target, used[source])
    local = choose(np.flatnonzero(around.any(1)), MANY_TARGETS, rng)
    elsewhere = other_nodes(truth, client)
    frequency = used_words(truth.features()[elsewhere] if len(elsewhere) else used).mean(0)
    return OutcomeGame(
        question=NeighbourhoodWords(ids=shard.node_ids.numpy()[local], client=client),
        metric="share of a neighbourhood's words among as many best guesses",
        unit="node with its edges",
        truth=around[local],
        outcome=found_words,
        prior_guess=np.tile(frequency.astype(np.float64), (len(local), 1)),
    )


def used_words(features: NDArray[np.generic]) -> NDArray[np.bool_]:
    """(N, d): which words a node uses, in any of its samples."""
    used: NDArray[np.bool_] = features.reshape(len(features), -1, features.shape[-1]) != 0
    found: NDArray[np.bool_] = np.any(used, axis=1)
    return found


def found_words(guess: Array, truth: NDArray[np.bool_]) -> Array:
    """Of the k highest entries of a guess, the share that is true, k being the number of words."""
    ranks = np.argsort(np.argsort(-guess, axis=1, kind="stable"), axis=1)
    counts = truth.sum(1)
    hits: Array = ((ranks < counts[:, None]) & truth).sum(1) / np.maximum(counts, 1)
    return hits
