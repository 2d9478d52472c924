"""Games about public nodes, whose rows clients upload in an order that all know.

Targets are rows of the upload. Their nodes follow from `public_nodes`, which this package holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack
from attacks.decoders import ridge_decoded
from attacks.public_labels import PARTS, margins, one_hot, standardised
from attacks.questions import (
    EdgedNodes,
    PublicCandidates,
    PublicLabels,
    PublicLinks,
    PublicMembers,
    SharedElsewhere,
)
from attacks.rows import pair_cosines
from audits.games.base import BinaryGame, OutcomeGame, choose_targets, choose_victim, plays
from audits.games.candidates import MANY_CANDIDATES, CandidateGame, candidate_percentiles
from audits.games.kriging import KNOWN_SHARE, MANY_KNOWN, krige_rows
from audits.games.links import (
    LEAST_SHARED,
    SHARED_PAIRS,
    link_prior,
    public_only,
    public_rows,
    require_few_public,
)
from audits.games.membership import balance_nodes
from audits.known_graph import known_edges
from audits.replay import public_nodes, replay_field
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

Ids = NDArray[np.int64]
LEAST_OF_EACH, MANY_OF_EACH = 10, 500


@plays(EdgedNodes)
def edged_nodes(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask which public nodes have an edge at one client. As many have one as have none."""
    client = choose_victim(truth, adversary)
    shard = truth.experiment.shards[client]
    if shard.public is None:
        raise CannotAttack("no node of this run is public")
    degrees = np.bincount(shard.graph.edge_index[0].numpy(), minlength=shard.graph.num_nodes)
    has_edge = degrees[shard.public.numpy()] > 0
    sides = [np.flatnonzero(has_edge), np.flatnonzero(~has_edge)]
    count = min(MANY_OF_EACH, *map(len, sides))
    if count < LEAST_OF_EACH:
        raise CannotAttack(
            f"{len(sides[1])} public nodes without an edge at client {client}; at least "
            f"{LEAST_OF_EACH} are needed"
        )
    ids = rng.permutation(np.concatenate([rng.permutation(side)[:count] for side in sides]))
    return BinaryGame(
        question=EdgedNodes(ids=ids, client=client),
        metric="AUC over public nodes with an edge at a client and without",
        unit="edge of a node",
        truth=has_edge[ids].astype(np.int64),
    )


@plays(PublicLinks)
def public_links(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask which pairs of public nodes are linked, of all linked pairs and as many others.

    The prior is the cosine of features, and all that link games know.
    """
    client, known = choose_victim(truth, adversary), public_nodes(truth).numpy()
    require_few_public(len(known))
    place = np.full(truth.graph.num_nodes, -1)
    place[known] = np.arange(len(known))
    source, target = place[truth.graph.edge_index.numpy()]
    linked = np.zeros((len(known), len(known)), bool)
    linked[source[(source >= 0) & (target >= 0)], target[(source >= 0) & (target >= 0)]] = True
    first, second = np.triu_indices(len(known), 1)
    is_linked = (linked | linked.T)[first, second]
    ones = choose_targets(np.flatnonzero(is_linked), SHARED_PAIRS, rng, LEAST_SHARED)
    zeros = choose_targets(np.flatnonzero(~is_linked), len(ones), rng, LEAST_SHARED)
    chosen = rng.permutation(np.concatenate([ones, zeros]))
    pairs, true = np.stack([first[chosen], second[chosen]], 1), is_linked[chosen].astype(np.int64)
    alike = pair_cosines(truth.features()[known].astype(np.float64), pairs)
    return BinaryGame(
        question=PublicLinks(ids=pairs, client=client),
        metric="AUC over pairs of public nodes",
        unit="edge",
        truth=true,
        prior_scores=link_prior(truth, adversary, known[pairs], true, [alike]),
    )


@plays(SharedElsewhere)
def shared_elsewhere(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask colluders which public nodes share a private neighbour at an honest client.

    Targets are pairs that are not linked and share no private neighbour at a colluder. The prior is
    the best of what public nodes tell by themselves and of what the colluder's own first rows tell.
    """
    shards = truth.experiment.shards
    colluders = sorted(adversary.clients)
    others = [shard for k, shard in enumerate(shards) if k not in adversary.clients]
    if not others:
        raise CannotAttack("all clients collude; nobody is left to attack")
    require_few_public(len(public_nodes(truth)))
    shares = np.any([_shares(truth, shard.node_ids.numpy()) for shard in others], axis=0)
    mine = np.any([_shares(truth, shards[k].node_ids.numpy()) for k in colluders], axis=0)
    free = ~_linked(truth) & ~mine
    first, second = np.triu_indices(len(shares), 1)
    is_shared = shares[first, second]
    able = free[first, second]
    ones = choose_targets(np.flatnonzero(able & is_shared), SHARED_PAIRS, rng, LEAST_SHARED)
    zeros = choose_targets(np.flatnonzero(able & ~is_shared), len(ones), rng, LEAST_SHARED)
    chosen = rng.permutation(np.concatenate([ones, zeros]))
    pairs, true = np.stack([first[chosen], second[chosen]], 1), is_shared[chosen].astype(np.int64)
    meaning = public_rows(truth)
    uploads = torch.stack([replay_field(truth, [shards[k]], meaning)[0] for k in colluders])
    rows = uploads[0][:, : meaning.columns].double().numpy()
    more = [*public_only(truth, pairs), pair_cosines(rows, pairs)]
    return BinaryGame(
        question=SharedElsewhere(ids=pairs, own_uploads=uploads.numpy()),
        metric="AUC over pairs of public nodes that are not linked",
        unit="private node with its edges",
        truth=true,
        prior_scores=link_prior(truth, adversary, public_nodes(truth).numpy()[pairs], true, more),
    )


def _linked(truth: Truth) -> NDArray[np.bool_]:
    """Return (public, public): which are linked."""
    touches = _touches(truth)[public_nodes(truth).numpy()]
    found: NDArray[np.bool_] = touches | touches.T
    return found


def _touches(truth: Truth) -> NDArray[np.bool_]:
    """Return (nodes, public): whether a node is linked to a public node."""
    known = public_nodes(truth).numpy()
    place = np.full(truth.graph.num_nodes, -1)
    place[known] = np.arange(len(known))
    source, target = truth.graph.edge_index.numpy()
    found = np.zeros((truth.graph.num_nodes, len(known)), bool)
    out = place[target] >= 0
    found[source[out], place[target[out]]] = True
    return found


def _shares(truth: Truth, held: Ids) -> NDArray[np.bool_]:
    """Return (public, public): which share a private node of those that a client holds."""
    private = np.setdiff1d(held, public_nodes(truth).numpy())
    touches = _touches(truth)[private].astype(np.float32)
    found: NDArray[np.bool_] = touches.T @ touches > 0
    return found


@plays(PublicCandidates)
def public_candidates(
    truth: Truth, adversary: Adversary, rng: np.random.Generator
) -> CandidateGame:
    """Ask whose record is behind a row, by where the true record is ranked in a pool.

    The records of a third of the public nodes are known from elsewhere. Chance is the prior, since
    the adversary knows no graph.
    """
    if truth.graph.features.dim() != 2:
        raise CannotAttack("nodes hold several samples each; there is no one row to find")
    nodes = public_nodes(truth).numpy()
    features = truth.features()[nodes]
    able = rng.permutation(np.flatnonzero(np.abs(features).sum(1) > 0))
    count = min(MANY_KNOWN, int(KNOWN_SHARE * len(able)))
    known, wanted = able[:count], choose_targets(able[count:], MANY_CANDIDATES, rng)
    order = rng.permutation(len(wanted))
    return CandidateGame(
        question=PublicCandidates(
            ids=wanted,
            client=choose_victim(truth, adversary),
            known_ids=known,
            known=features[known],
            candidates=features[wanted[order]],
        ),
        metric="share of the other candidates ranked below the true row",
        unit="row",
        truth=np.argsort(order),
        outcome=candidate_percentiles,
        prior_guess=np.zeros((len(wanted), len(wanted))),
    )


@dataclass(frozen=True)
class PublicLabelGame(OutcomeGame):
    """A game about labels of public nodes.

    by_features  the share that features averaged over neighbours tell, to who knows both
    """

    by_features: float = 0.0

    def extras(self, guess: Array) -> dict[str, float]:
        """Return what somebody with all features and the graph would find without the run."""
        return {"by_smoothed_features": self.by_features}


@plays(PublicLabels)
def public_labels(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> PublicLabelGame:
    """Ask for labels of public nodes that nobody trained on. Those of training nodes are known.

    The prior is what the known labels tell: the most frequent class, and to an adversary who knows
    the graph what they tell of their neighbours'.
    """
    nodes, labels, smoothed = _labelled(truth)
    trained = truth.graph.split.train.numpy()[nodes]
    known = rng.permutation(np.flatnonzero(trained & (labels >= 0)))[:MANY_KNOWN]
    wanted = choose_targets(
        np.flatnonzero(~trained & (labels >= 0)), MANY_OF_EACH, rng, LEAST_OF_EACH
    )
    if len(known) < LEAST_OF_EACH:
        raise CannotAttack(f"{len(known)} public training nodes; {LEAST_OF_EACH} are needed")
    classes, size = truth.graph.num_classes, truth.graph.num_nodes
    told, edges = one_hot(labels[known], classes), known_edges(truth, adversary)
    foretold = krige_rows(told, nodes[known], nodes[wanted], edges, size).wanted.argmax(1)
    taught, asked = standardised(smoothed[known], smoothed[wanted])
    by_features = ridge_decoded(taught, told, asked).argmax(1) == labels[wanted]
    return PublicLabelGame(
        question=PublicLabels(
            ids=wanted,
            client=choose_victim(truth, adversary),
            known_ids=known,
            known_labels=labels[known],
            num_classes=classes,
        ),
        metric="share of withheld labels guessed",
        unit="label of a node",
        truth=labels[wanted],
        outcome=is_right,
        prior_guess=foretold.astype(np.float64),
        by_features=float(by_features.mean()),
    )


def is_right(guess: Array, truth: Ids) -> Array:
    """Return 1 where the guess is the label, else 0."""
    found: Array = (np.round(guess) == truth).astype(np.float64)
    return found


@plays(PublicMembers)
def public_members(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask which public nodes' labels were trained on, of as many training and test nodes of every
    class.

    The prior is the same attack on features that are averaged over neighbours, if it tells
    anything.
    """
    nodes, labels, smoothed = _labelled(truth)
    split = truth.graph.split
    train, test = split.train.numpy()[nodes], split.test.numpy()[nodes]
    ids = balance_nodes(labels, train, test, rng)
    classes, node_labels = truth.graph.num_classes, labels[ids]
    part, easy = rng.permutation(len(ids)) % PARTS, np.zeros(len(ids))
    for number in range(PARTS):
        out = part == number
        taught, asked = standardised(smoothed[ids[~out]], smoothed[ids[out]])
        scores = ridge_decoded(taught, one_hot(node_labels[~out], classes), asked)
        easy[out] = margins(scores, node_labels[out])
    true = train[ids].astype(np.int64)
    game = BinaryGame(
        question=PublicMembers(
            ids=ids, client=choose_victim(truth, adversary), labels=node_labels, num_classes=classes
        ),
        metric="AUC over public training and test nodes",
        unit="label of a node",
        truth=true,
        prior_scores=easy,
    )
    return game if game.prior(easy).value > 0.5 else replace(game, prior_scores=None)


def _labelled(truth: Truth) -> tuple[Ids, Ids, Array]:
    """Return the public nodes, their labels, and their features averaged over neighbours."""
    if truth.graph.features.dim() != 2 or truth.graph.labels.dim() != 1:
        raise CannotAttack("nodes hold several samples each: a node has no one label")
    nodes = public_nodes(truth).numpy()
    features, summed = truth.features().astype(np.float64), truth.features().astype(np.float64)
    source, target = truth.graph.edge_index.numpy()
    np.add.at(summed, target, features[source])
    counts = 1 + np.bincount(target, minlength=len(features))
    return nodes, truth.graph.labels.numpy()[nodes], (summed / counts[:, None])[nodes]
