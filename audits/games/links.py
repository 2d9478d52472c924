"""Games about links: which pairs of nodes are connected. One rule makes the prior of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack
from attacks.questions import (
    ClientLinks,
    OthersLinks,
    SharedNeighbour,
    SmallGraphEdges,
    StolenLinks,
)
from attacks.rows import pair_cosines
from audits import metrics
from audits.games.base import BinaryGame, choose_targets, choose_victim, plays
from audits.games.candidates import near_labels, small_clients
from audits.replay import public_nodes, public_shard, replay_field
from audits.truth import Truth
from securefg.data.shard import Shard
from securefg.foundation.unique import numbers_except, sorted_unique, unique_pairs
from securefg.protocol.meanings import NodeRows
from securefg.protocol.transcript import Adversary


def link_prior(
    truth: Truth,
    adversary: Adversary,
    pairs: NDArray[np.int64],
    is_linked: NDArray[np.int64],
    more: Sequence[Array] = (),
) -> Array | None:
    """Return the best scores of the pairs that are known without the run's uploads, or None for
    chance.

    pairs are global node ids, and more holds scores that this game's adversary knows. Everybody who
    may query the released model knows its answers, and a server that was given the graph knows the
    graph. The best score is chosen with the truth in hand, to the disfavour of the attack. If none
    is better than chance, chance is the prior.
    """
    if adversary.kind == "server" and truth.experiment.public.edge_index is not None:
        raise CannotAttack("the server is given the graph: links are no secret to it")
    candidates = [*more]
    if truth.answers is not None and adversary.kind != "wire":
        candidates += answers_alike(truth.answers.double().softmax(-1).numpy(), pairs)
    best = max(
        candidates, key=lambda scores: metrics.area_under_curve(is_linked, scores), default=None
    )
    return best if best is not None and metrics.area_under_curve(is_linked, best) > 0.5 else None


def answers_alike(answers: Array, pairs: NDArray[np.int64]) -> list[Array]:
    """Return nearness of two answers: as distance, and as cosine of the part above the mean."""
    first, second = answers[pairs[:, 0]], answers[pairs[:, 1]]
    near = -np.abs(first - second).sum(1)
    centre = answers.mean(0)
    rows = [x - centre for x in (first, second)]
    sizes = np.linalg.norm(rows[0], axis=1) * np.linalg.norm(rows[1], axis=1)
    cosine = (rows[0] * rows[1]).sum(1) / np.maximum(sizes, 1e-12)
    return [near, cosine]


ALL_PAIRS = 200_000


@dataclass(frozen=True)
class LinkGame(BinaryGame):
    """A game that also tells how many of the |E| best pairs are edges, and their share."""

    def extras(self, guess: Array) -> dict[str, float]:
        """Return the precision among the |E| best pairs, and the share of edges among all pairs."""
        edges = int(self.truth.sum())
        return {
            "precision_at_num_edges": metrics.precision_at_k(self.truth, guess, edges),
            "share_of_edges": edges / len(self.truth),
        }


@plays(ClientLinks)
def client_links(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> LinkGame:
    """Ask for the links of one client: pairs of its nodes, edges and non-edges."""
    client = choose_victim(truth, adversary)
    shard = truth.experiment.shards[client]
    count = shard.graph.num_nodes
    linked = np.zeros((count, count), bool)
    ends = shard.graph.edge_index.numpy()
    linked[ends[0], ends[1]] = linked[ends[1], ends[0]] = True
    first, second = np.triu_indices(count, 1)
    is_linked = linked[first, second]
    if not is_linked.any() or is_linked.all():
        raise CannotAttack(f"client {client} has no edge, or only edges")
    others = rng.permutation(np.flatnonzero(~is_linked))[: max(ALL_PAIRS - int(is_linked.sum()), 1)]
    order = rng.permutation(np.concatenate([np.flatnonzero(is_linked), others]))
    ids = shard.node_ids.numpy()
    pairs = np.stack([ids[first[order]], ids[second[order]]], 1)
    return LinkGame(
        question=ClientLinks(ids=pairs, client=client),
        metric="AUC over pairs of one client's nodes",
        unit="edge",
        truth=is_linked[order].astype(np.int64),
        prior_scores=link_prior(truth, adversary, pairs, is_linked[order].astype(np.int64)),
    )


MANY_NODES = 40
NON_EDGES = 20
LEAST_EDGES = 5


@plays(OthersLinks)
def others_links(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> LinkGame:
    """Ask for links between an own node and a node that the adversary does not hold.

    Targets are the edges that other clients hold between two such nodes, and NON_EDGES times as
    many pairs without an edge, of the same own nodes. The prior is the likeness of plain answers.
    """
    if truth.answers is None:
        raise CannotAttack("the run released no model that answers for nodes")
    if not adversary.clients:
        raise CannotAttack("only clients have links to others' nodes of their own")
    shards = truth.experiment.shards
    own = sorted_unique(np.concatenate([shards[k].node_ids.numpy() for k in adversary.clients]))
    others = numbers_except(truth.held_nodes, own)
    source, target = truth.graph.edge_index.numpy()
    across = np.isin(source, own) & np.isin(target, others)
    chosen = choose_targets(sorted_unique(source[across]), MANY_NODES, rng)
    kept = across & np.isin(source, chosen)
    edges = np.stack([source[kept], target[kept]], 1)
    if len(edges) < LEAST_EDGES:
        raise CannotAttack(f"{len(edges)} edges to others' nodes; {LEAST_EDGES} are needed")
    pairs = np.concatenate([edges, _without_edge(edges, others, truth.graph.num_nodes, rng)])
    is_linked = np.arange(len(pairs)) < len(edges)
    order = rng.permutation(len(pairs))
    return LinkGame(
        question=OthersLinks(ids=pairs[order]),
        metric="AUC over pairs of an own and another's node",
        unit="edge",
        truth=is_linked[order].astype(np.int64),
        prior_scores=link_prior(truth, adversary, pairs[order], is_linked[order].astype(np.int64)),
    )


def _without_edge(
    edges: NDArray[np.int64], others: NDArray[np.int64], size: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    drawn = np.stack(
        [
            rng.choice(edges[:, 0], NON_EDGES * len(edges)),
            rng.choice(others, NON_EDGES * len(edges)),
        ],
        1,
    )
    linked = np.isin(drawn @ [size, 1], edges @ [size, 1])
    found: NDArray[np.int64] = drawn[~linked]
    return found


MANY_LINKS, MANY_OTHERS = 1000, 3000
Pairs = NDArray[np.int64]
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Known:
    """A graph under global ids. `client` is its owner, if one client has all of it."""

    nodes: Ids
    edges: Pairs
    client: int | None = None


@plays(StolenLinks)
def stolen_links(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> LinkGame:
    """Ask for links, to an adversary who knows another graph of the kind (He et al. 2021).

    The shadow graph is the shard of a colluding client to the server, their own shards to clients,
    and one half of the nodes with their links to an outsider. Targets are pairs of another client's
    nodes, or of the other half. No target has two nodes that the adversary knows.
    """
    shadow, target = _known_and_asked(truth, adversary, rng)
    taught, linked = draw_pairs(shadow, np.zeros(0, np.int64), rng)
    pairs, is_linked = draw_pairs(target, shadow.nodes, rng)
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
        truth=is_linked,
        prior_scores=link_prior(truth, adversary, pairs, is_linked),
    )


def _known_and_asked(
    truth: Truth, adversary: Adversary, rng: np.random.Generator
) -> tuple[Known, Known]:
    """Return the graph that is known, and the one that is asked about."""
    if adversary.kind == "outsider":
        held = rng.permutation(truth.held_nodes)
        edges = truth.graph.edge_index.numpy().T
        return Known(held[::2], edges), Known(held[1::2], edges)
    client = choose_victim(truth, adversary)
    if adversary.kind == "client":
        known = [_held_graph(truth, k) for k in sorted(adversary.clients)]
        nodes = sorted_unique(np.concatenate([one.nodes for one in known]))
        return Known(nodes, np.concatenate([one.edges for one in known])), _held_graph(
            truth, client
        )
    sizes = {k: int(s) for k, s in enumerate(truth.experiment.partition.sizes) if k != client}
    if not sizes:
        raise CannotAttack("no other client could collude with the server")
    return _held_graph(truth, max(sizes, key=lambda k: sizes[k])), _held_graph(truth, client)


def _held_graph(truth: Truth, client: int) -> Known:
    shard = truth.experiment.shards[client]
    ids = shard.node_ids.numpy()
    return Known(ids, ids[shard.graph.edge_index.numpy().T], client)


def draw_pairs(
    graph: Known, known: Ids, rng: np.random.Generator
) -> tuple[Pairs, NDArray[np.int64]]:
    """Return linked and other pairs of its nodes in random order, none of two known nodes."""
    size = int(max(graph.nodes.max(initial=0), graph.edges.max(initial=0))) + 1
    ends = np.sort(graph.edges[np.isin(graph.edges, graph.nodes).all(1)], 1)
    linked = unique_pairs(ends[ends[:, 0] < ends[:, 1]])
    ends = np.sort(rng.choice(graph.nodes, (2 * MANY_OTHERS, 2)), 1)
    other = unique_pairs(ends[ends[:, 0] < ends[:, 1]])
    other = other[~np.isin(other @ [size, 1], linked @ [size, 1])]
    kept = [_unknown_pairs(pairs, known) for pairs in (linked, other)]
    if min(map(len, kept)) < 2:
        raise CannotAttack("fewer than two pairs with a link, or without one")
    most = (MANY_LINKS, MANY_OTHERS)
    chosen = [rng.permutation(pairs)[:count] for pairs, count in zip(kept, most, strict=True)]
    order = rng.permutation(sum(map(len, chosen)))
    so = np.repeat(np.array([1, 0], np.int64), [len(pairs) for pairs in chosen])
    return np.concatenate(chosen)[order], so[order]


def _unknown_pairs(pairs: Pairs, known: Ids) -> Pairs:
    return pairs[~np.isin(pairs, known).all(1)]


SHARED_PAIRS = 4000
MOST_PUBLIC = 10_000
"""All pairs of so many public nodes are made, and the pairs of more are not."""
LEAST_SHARED = 10


@plays(SharedNeighbour)
def shared_neighbour(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask which two public nodes share a private neighbour at one client.

    Targets are pairs of public nodes that are not linked: all that share a private neighbour, up to
    SHARED_PAIRS, and as many others, drawn evenly from all pairs that share none. The prior is what
    the public nodes tell by themselves: the cosine after the method's own training, as long, on
    them alone, the cosine of their features, both together, and what all link games know.
    """
    client = choose_victim(truth, adversary)
    pairs, is_shared = shared_pairs(truth.experiment.shards[client], rng)
    order = rng.permutation(len(pairs))
    pairs, is_shared = pairs[order], is_shared[order]
    known = public_nodes(truth).numpy()  # global ids, in the order of the rows
    return BinaryGame(
        question=SharedNeighbour(ids=pairs, client=client),
        metric="AUC over pairs of public nodes that are not linked",
        unit="private node with its edges",
        truth=is_shared,
        prior_scores=link_prior(
            truth, adversary, known[pairs], is_shared, public_only(truth, pairs)
        ),
    )


def public_only(truth: Truth, pairs: NDArray[np.int64]) -> list[Array]:
    """Return scores of the pairs from public nodes alone."""
    shard = public_shard(truth, truth.graph, torch.empty(0, dtype=torch.long))
    meaning = public_rows(truth)
    whole = replay_field(truth, [shard], meaning, truth.config.training.rounds)[0]
    rows = whole[:, : meaning.columns]
    learnt = pair_cosines(rows.double().numpy(), pairs)
    # The row of a node without public neighbours is where it started: it says nothing.
    degrees = np.bincount(shard.graph.edge_index[0].numpy(), minlength=shard.graph.num_nodes)
    silent = (degrees[pairs] == 0).any(1)
    if meaning.layer == "walks" and not silent.all():
        learnt = np.where(silent, learnt[~silent].mean(), learnt)
    alike = pair_cosines(shard.graph.features.double().numpy(), pairs)
    both: Array = _standard_scores(learnt) + _standard_scores(alike)
    return [learnt, alike, both]


def _standard_scores(scores: Array) -> Array:
    standard: Array = (scores - scores.mean()) / max(float(scores.std()), 1e-12)
    return standard


def shared_pairs(
    shard: Shard, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return pairs of positions among the public nodes, and 1 if they share a private neighbour."""
    if shard.public is None:
        raise CannotAttack("the partition has no public nodes")
    count = len(shard.public)
    require_few_public(count)
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
    is_shared = shares[first, second]
    ones = choose_targets(np.flatnonzero(free & is_shared), SHARED_PAIRS, rng, LEAST_SHARED)
    zeros = choose_targets(np.flatnonzero(free & ~is_shared), len(ones), rng, LEAST_SHARED)
    chosen = np.concatenate([ones, zeros])
    return np.stack([first[chosen], second[chosen]], 1), is_shared[chosen].astype(np.int64)


def require_few_public(count: int) -> None:
    """Raise CannotAttack if all pairs of public nodes would not fit into memory."""
    if count > MOST_PUBLIC:
        raise CannotAttack(f"{count:,} public nodes; all pairs of {MOST_PUBLIC:,} at most are made")


def public_rows(truth: Truth) -> NodeRows:
    """Return what the uploaded rows of public nodes mean."""
    for meaning in truth.spoken.uploads.values():
        if isinstance(meaning, NodeRows) and meaning.index == "public":
            return meaning
    raise CannotAttack("no rows of public nodes are uploaded")


@dataclass(frozen=True)
class EdgeGame(LinkGame):
    """A link game that also tells the share of edges that score above every other pair."""

    def extras(self, guess: Array) -> dict[str, float]:
        """Return the figures of a link game, and the share of edges that score above every other
        pair."""
        sure = guess > guess[self.truth == 0].max()
        return {**super().extras(guess), "exact_edges": float(sure[self.truth == 1].mean())}


@plays(SmallGraphEdges)
def small_graph_edges(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> EdgeGame:
    """Ask for the links of one small client, to a server that knows its records.

    Targets are all pairs of the client's nodes of which a label reaches one.
    """
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
    is_linked = linked[first[asked], second[asked]].astype(np.int64)
    if not 0 < is_linked.sum() < len(is_linked):
        raise CannotAttack(f"client {client} has no edge near a label, or only edges")
    pairs = np.stack([ids[first[asked]], ids[second[asked]]], 1)
    return EdgeGame(
        question=SmallGraphEdges(ids=pairs, client=client, known_ids=ids, known=features),
        metric="AUC over pairs of one small client's nodes, one of them near a label",
        unit="edge",
        truth=is_linked,
        prior_scores=link_prior(truth, adversary, pairs, is_linked),
    )
