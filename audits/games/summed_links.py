"""Are these two nodes of one client linked, in summed second moments? All else is known.

Targets are links and as many pairs without one: the same first node, which trains, and a second one
of the same class as the linked one, so that classes alone tell nothing. Prior: chance. What the
model answers for two nodes is no prior: their links make the answers, which stay with the client.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from attacks.base import CannotAttack
from attacks.questions import SummedLinks
from audits.games.base import BinaryGame, plays
from audits.games.client_links import LinkGame
from audits.games.known_others import (
    LEAST_TARGETS,
    BothShards,
    affordable,
    form_of_moves,
    held_once,
    sums_with_and_without,
    width,
)
from audits.games.shared_noise import shared_sd
from audits.truth import Truth
from securefg.data.shard import Shard
from securefg.protocol.meanings import Statistic
from securefg.protocol.transcript import Adversary

SUM = Statistic(form="moments")
MANY_LINKS = 300


@plays(SummedLinks, closed_form=True)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    held_once(truth)
    found = [triple for shard in truth.experiment.shards for triple in _triples(shard, rng)]
    if len(found) < LEAST_TARGETS:
        raise CannotAttack(f"{len(found)} links; {LEAST_TARGETS} are needed")
    count = affordable(truth, min(MANY_LINKS, len(found)), width(truth, SUM))
    chosen = [found[i] for i in rng.permutation(len(found))[:count]]
    pairs, so, questions = [], [], []
    for shard, first, linked, other in chosen:
        for second, is_link in ((linked, 1), (other, 0)):
            pairs.append(shard.node_ids[[first, second]].numpy())
            so.append(is_link)
            changed = _toggled(shard, first, second)
            questions.append(BothShards(changed, shard) if is_link else BothShards(shard, changed))
    without, moves = sums_with_and_without(truth, SUM, questions)
    order = rng.permutation(len(pairs))
    ids, truths = np.stack(pairs)[order], np.array(so, np.int64)[order]
    return LinkGame(
        question=SummedLinks(ids=ids, sum_without=without[order], moves=moves[order]),
        metric="AUC over pairs of nodes with one client",
        unit="edge",
        truth=truths,
        shared_sd=shared_sd(truths, moves[order], rng),
        closed=lambda view: form_of_moves(truth, [SUM], [moves], adversary, view),
    )


def _triples(shard: Shard, rng: np.random.Generator) -> list[tuple[Shard, int, int, int]]:
    """(first, linked, not linked) for every link that has such a third node."""
    graph = shard.graph
    source, target = (ends.numpy() for ends in graph.edge_index)
    once = np.flatnonzero(graph.split.train.numpy()[source] & (source != target))
    labels = graph.labels.numpy()
    by_class = {c: np.flatnonzero(labels == c) for c in np.unique(labels)}
    found = []
    for edge in rng.permutation(once)[:MANY_LINKS]:
        u, v = int(source[edge]), int(target[edge])
        like: NDArray[np.int64] = rng.permutation(by_class[labels[v]])[:20]
        free = [
            int(w) for w in like if w not in (u, v) and not ((source == u) & (target == w)).any()
        ]
        if free:
            found.append((shard, u, v, free[0]))
    return found


def _toggled(shard: Shard, first: int, second: int) -> Shard:
    """The shard with this link where there was none, or without it."""
    ends = shard.graph.edge_index
    here = ((ends[0] == first) & (ends[1] == second)) | ((ends[0] == second) & (ends[1] == first))
    edges = ends[:, ~here]
    if not bool(here.any()):
        edges = torch.cat([ends, torch.tensor([[first, second], [second, first]])], 1)
    return replace(shard, graph=replace(shard.graph, edge_index=edges))
