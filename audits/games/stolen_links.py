"""Which nodes are linked, to somebody who knows another graph of the kind? (He et al. 2021)

The shadow graph: to the server the shard of a client that colludes, to clients their own shards,
and to an outsider what all hold together among one half of the nodes. Targets are pairs of another
client's nodes, or of the other half; no pair of which the adversary knows both nodes is asked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attacks.base import CannotAttack
from attacks.questions import StolenLinks
from audits.games.base import plays
from audits.games.client_links import LinkGame
from audits.games.link_prior import link_prior
from audits.games.victims import victim
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

MANY_LINKS, MANY_OTHERS = 1000, 3000
Pairs = NDArray[np.int64]
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Known:
    """A graph under global ids; client  whose it is, where it is one client's."""

    nodes: Ids
    edges: Pairs
    client: int | None = None


@plays(StolenLinks)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> LinkGame:
    shadow, target = _graphs(truth, adversary, rng)
    taught, linked = drawn(shadow, np.zeros(0, np.int64), rng)
    pairs, so = drawn(target, shadow.nodes, rng)
    return LinkGame(
        question=StolenLinks(
            ids=pairs,
            client=target.client,
            shadow_pairs=taught,
            shadow_linked=linked,
            shadow_client=shadow.client,
        ),
        metric="AUC over pairs of nodes that the adversary does not know",
        unit="edge",
        truth=so,
        prior_scores=link_prior(truth, adversary, pairs, so),
    )


def _graphs(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> tuple[Known, Known]:
    """What is known, and what is asked."""
    if adversary.kind == "outsider":
        held = rng.permutation(np.unique(truth.experiment.partition.nodes.numpy()))
        edges = truth.graph.edge_index.numpy().T
        return Known(held[::2], edges), Known(held[1::2], edges)
    client = victim(truth, adversary)
    if adversary.kind == "client":
        known = [_held(truth, k) for k in sorted(adversary.clients)]
        nodes = np.unique(np.concatenate([one.nodes for one in known]))
        return Known(nodes, np.concatenate([one.edges for one in known])), _held(truth, client)
    sizes = {k: int(s) for k, s in enumerate(truth.experiment.partition.sizes) if k != client}
    if not sizes:
        raise CannotAttack("no other client could collude with the server")
    return _held(truth, max(sizes, key=lambda k: sizes[k])), _held(truth, client)


def _held(truth: Truth, client: int) -> Known:
    shard = truth.experiment.shards[client]
    ids = shard.node_ids.numpy()
    return Known(ids, ids[shard.graph.edge_index.numpy().T], client)


def drawn(graph: Known, known: Ids, rng: np.random.Generator) -> tuple[Pairs, NDArray[np.int64]]:
    """Linked and other pairs of its nodes in random order, none of two known nodes."""
    size = int(max(graph.nodes.max(initial=0), graph.edges.max(initial=0))) + 1
    ends = np.sort(graph.edges[np.isin(graph.edges, graph.nodes).all(1)], 1)
    linked = np.unique(ends[ends[:, 0] < ends[:, 1]], axis=0)
    ends = np.sort(rng.choice(graph.nodes, (2 * MANY_OTHERS, 2)), 1)
    other = np.unique(ends[ends[:, 0] < ends[:, 1]], axis=0)
    other = other[~np.isin(other @ [size, 1], linked @ [size, 1])]
    kept = [_unknown(pairs, known) for pairs in (linked, other)]
    if min(map(len, kept)) < 2:
        raise CannotAttack("fewer than two pairs with a link, or without one")
    most = (MANY_LINKS, MANY_OTHERS)
    chosen = [rng.permutation(pairs)[:count] for pairs, count in zip(kept, most, strict=True)]
    order = rng.permutation(sum(map(len, chosen)))
    so = np.repeat(np.array([1, 0], np.int64), [len(pairs) for pairs in chosen])
    return np.concatenate(chosen)[order], so[order]


def _unknown(pairs: Pairs, known: Ids) -> Pairs:
    return pairs[~np.isin(pairs, known).all(1)]
