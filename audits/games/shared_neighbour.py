"""Do two public nodes share a private neighbour at one client?

Targets are pairs of public nodes that are not linked: all that share a private neighbour (or as
many as are played at most), and as many others, drawn evenly from all pairs that share none.

The prior is what the public nodes tell by themselves: the cosine after the method's own training,
as long, on them alone; the cosine of their features; both together; and what all link games know
beforehand. Whichever says most is taken, with the truth in hand, to the disfavour of the attack.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack
from attacks.questions import SharedNeighbour
from attacks.rows import cosines
from audits.games.base import BinaryGame, choose, plays
from audits.games.link_prior import link_prior
from audits.games.victims import victim
from audits.replay import public_nodes, public_shard, replayed
from audits.truth import Truth
from securefg.data.shard import Shard
from securefg.protocol.meanings import NodeRows
from securefg.protocol.transcript import Adversary

MANY_PAIRS = 4000
LEAST_PAIRS = 10


@plays(SharedNeighbour)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    client = victim(truth, adversary)
    pairs, so = shared_pairs(truth.experiment.shards[client], rng)
    order = rng.permutation(len(pairs))
    pairs, so = pairs[order], so[order]
    known = public_nodes(truth).numpy()  # global ids, in the order of the rows
    return BinaryGame(
        question=SharedNeighbour(ids=pairs, client=client),
        metric="AUC over pairs of public nodes that are not linked",
        unit="private node with its edges",
        truth=so,
        prior_scores=link_prior(truth, adversary, known[pairs], so, public_only(truth, pairs)),
    )


def public_only(truth: Truth, pairs: NDArray[np.int64]) -> list[Array]:
    """Scores of the pairs from public nodes alone."""
    shard = public_shard(truth, truth.graph, torch.empty(0, dtype=torch.long))
    meaning = public_rows(truth)
    whole = replayed(truth, [shard], meaning, truth.config.training.rounds)[0]
    rows = whole[:, : meaning.columns]
    learnt = cosines(rows.double().numpy(), pairs)
    # The row of a node without public neighbours is where it started: it says nothing.
    degrees = np.bincount(shard.graph.edge_index[0].numpy(), minlength=shard.graph.num_nodes)
    silent = (degrees[pairs] == 0).any(1)
    if meaning.layer == "walks" and not silent.all():
        learnt = np.where(silent, learnt[~silent].mean(), learnt)
    alike = cosines(shard.graph.features.double().numpy(), pairs)
    both: Array = _standard(learnt) + _standard(alike)
    return [learnt, alike, both]


def _standard(scores: Array) -> Array:
    standard: Array = (scores - scores.mean()) / max(float(scores.std()), 1e-12)
    return standard


def shared_pairs(
    shard: Shard, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of positions among the public nodes, and 1 where they share a private neighbour."""
    if shard.public is None:
        raise CannotAttack("the partition has no public nodes")
    count = len(shard.public)
    place = np.full(shard.graph.num_nodes, -1)
    place[shard.public.numpy()] = np.arange(count)
    source, target = shard.graph.edge_index.numpy()
    linked = np.zeros((count, count), bool)
    both = (place[source] >= 0) & (place[target] >= 0)
    linked[place[source[both]], place[target[both]]] = True
    touches = np.zeros((shard.graph.num_nodes, count), np.float32)
    out = (place[source] < 0) & (place[target] >= 0)
    touches[source[out], place[target[out]]] = 1
    shares = touches.T @ touches > 0
    first, second = np.triu_indices(count, 1)
    free = ~linked[first, second]
    so = shares[first, second]
    ones = choose(np.flatnonzero(free & so), MANY_PAIRS, rng, LEAST_PAIRS)
    zeros = choose(np.flatnonzero(free & ~so), len(ones), rng, LEAST_PAIRS)
    chosen = np.concatenate([ones, zeros])
    return np.stack([first[chosen], second[chosen]], 1), so[chosen].astype(np.int64)


def public_rows(truth: Truth) -> NodeRows:
    """What the uploaded rows of public nodes are."""
    for meaning in truth.spoken.uploads.values():
        if isinstance(meaning, NodeRows) and meaning.index == "public":
            return meaning
    raise CannotAttack("no rows of public nodes are uploaded")
