"""Attacks on holders: which client has a node, and which nodes a client has."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from attacks.base import Array, Attack, CannotAttack, View
from attacks.evidence import HEDGED, gaussian_log_ratio, largest_shift, lean_evidence
from attacks.models import MODEL, first_layers, layout_of
from attacks.questions import HeldNodes, Presence
from attacks.rows import client_rounds, embedding_rows, noise_of, pair_cosines
from securefg.protocol.meanings import Holdings, NodeRows, Predictions

ROWS = (Holdings(degrees=False), NodeRows(index="nodes"), Predictions("nodes"))


def held_rows(view: View, question: HeldNodes, rng: np.random.Generator) -> Array:
    """Score nodes by whether the client's uploaded rows of them are anything but zero.

    A client that uploads a row per node of a common index has rows of zeros for nodes that it does
    not hold, or says outright what it holds. Under noise no row is zero, and the sizes are averaged
    over rounds. If rows are masked, only the sum is seen, which tells how many clients hold a node.
    """
    rounds, noise = client_rounds(view, question.client, ROWS), noise_of(view, ROWS)
    rows = torch.stack([value.double().flatten(1) for value in rounds.values()])
    if rows.shape[1] != view.public.num_nodes:
        raise CannotAttack(f"{rows.shape[1]} rows, not one for each of {view.public.num_nodes}")
    sizes = rows.square().sum(-1)
    own = (sizes > 0).double().amax(0) if noise is None else sizes.mean(0)
    evidence: Array = own[torch.from_numpy(question.ids)].numpy()
    return lean_evidence(evidence, question.prior, largest_shift(noise, 1.0, len(rounds)))


HELD_ROWS = Attack(
    name="held_rows",
    summary="which nodes a client holds, from which of its uploaded rows are not zero",
    source="the definition: rows are zero where a client holds nothing",
    needs=(ROWS,),
    assumes="one client's uploads of a row per node of a common index",
    adversaries=frozenset({"server"}),
    question=HeldNodes,
    floor=0.1,
    expected="exact",
    exposes="that a client holds a person's record",
    stopped_by="masks, since then the sum tells only how many hold a node; noise on all rows",
    run=held_rows,
    rounds=5,
)


ROUNDS = 5


def node_owner(view: View, question: HeldNodes, rng: np.random.Generator) -> Array:
    """Score nodes by the client's share of all clients' movement along the node's features.

    A record x that a client trains on moves its first matrices by errors times x, so W's change
    times x is large there and small at clients without such records. The share divides out whatever
    moves all clients alike (classes, common words). The attack needs no equations of the network
    and excludes no optimizer. The question is CC-MIA's (which client a member belongs to, Hu et al.
    2021 for horizontal federated learning). The attack was derived here.
    """
    if not question.known.size:
        raise CannotAttack("the targets' features are not known")
    rows = question.known.astype(np.float64)
    moved: dict[int, list[Array]] = {}
    for _, client, weight, _ in first_layers(view):
        own = moved.setdefault(client, [])
        if len(own) < ROUNDS:
            own.append(np.square(rows @ weight.T).sum(1))
    if question.client not in moved:
        raise CannotAttack(f"client {question.client} uploaded nothing that can be read")
    shares = {client: _movement_shares(np.sum(own, 0)) for client, own in moved.items()}
    evidence = shares[question.client] / np.maximum(sum(shares.values()), 1e-300)
    noise = view.best_rows(MODEL)[0].noise
    count = len(moved[question.client])
    # A hint, even without noise: it orders what a prior leaves open.
    shift = min(HEDGED, largest_shift(noise, len(rows) ** -0.5, count))
    return lean_evidence(np.round(evidence, 9), question.prior, shift)


def _movement_shares(along: Array) -> Array:
    """Return each target's share of a client's movement: clients move by different lengths."""
    found: Array = along / max(float(along.sum()), 1e-300)
    return found


def _several_read_features(view: View) -> str | None:
    if view.public.num_clients < 2:
        return "there is one client"
    return None if layout_of(view).inputs else "which weights multiply features is not known"


NODE_OWNER = Attack(
    name="node_owner",
    summary="which client has a node, from whose first layer moved along its features",
    source="derived here; the question is that of Hu et al. 2021, source inference",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="all clients' uploaded models, and the features of the persons that are sought",
    adversaries=frozenset({"server"}),
    question=HeldNodes,
    floor=0.05,
    expected="AUC 0.65 to 0.9 where clients hold communities; no gain where they overlap",
    exposes="that a client holds a known person's record",
    stopped_by="masks, which leave one sum for all clients; noise on the update",
    run=node_owner,
    rounds=ROUNDS,
    applies_to=_several_read_features,
)


PUBLIC_ROWS = NodeRows(index="public")
ROUND = 1


def presence(view: View, question: Presence, rng: np.random.Generator) -> Array:
    """Score whether candidates are private nodes of a client, by LiRA on the rows' Gram matrix.

    No rotation changes the Gram matrix. The adversary knows a candidate's links to public nodes. It
    trains clients of its own with and without the candidate (shadows), takes the mean cosine over
    all pairs of the candidate's public neighbours in round 1, and weighs the observed cosine by the
    two normal laws (Carlini et al. 2022). All candidates share one variance, since there are few
    shadows.
    """
    edges, uploads, member = question.edges, question.shadow_uploads, question.shadow_member
    rounds = embedding_rows(view, question.client, PUBLIC_ROWS)
    if ROUND not in rounds:
        raise CannotAttack(f"the rows of round {ROUND} are not in the view")
    groups = [edges[1][edges[0] == i] for i in range(len(question.ids))]
    observed = mean_cosines(rounds[ROUND], groups)
    made = np.stack([mean_cosines(rows.astype(np.float64), groups) for rows in uploads])
    inside, outside = _mean_of(made, member), _mean_of(made, ~member)
    centred = made - np.where(member, inside, outside)
    spread = max(float(centred.std()), 1e-9)
    return gaussian_log_ratio(observed, inside, spread, outside, spread)


def mean_cosines(rows: Array, groups: list[NDArray[np.int64]]) -> Array:
    """Return for every group of rows the mean cosine over its pairs."""
    group_means = []
    for group in groups:
        first, second = np.triu_indices(len(group), 1)
        group_means.append(pair_cosines(rows, np.stack([group[first], group[second]], 1)).mean())
    return np.array(group_means)


def _mean_of(values: Array, chosen: NDArray[np.bool_]) -> Array:
    found: Array = np.where(chosen, values, 0).sum(0) / chosen.sum(0)
    return found


PRESENCE = Attack(
    name="presence",
    summary="whether a node is among a client's private ones, by LiRA on the rows' Gram matrix",
    source="P2; Carlini et al. 2022",
    needs=(PUBLIC_ROWS,),
    assumes="round 1's uploaded rows; candidates' links to public nodes; shadow clients' data",
    adversaries=frozenset({"server"}),
    question=Presence,
    floor=0.1,
    expected="AUC 0.87 on rows from walks over Cora, for nodes with two public neighbours or more",
    exposes="that a client holds the record of a person whom nobody else knows of",
    stopped_by="masks; noise on the rows",
    run=presence,
    rounds=2,
)


ATTACKS = (HELD_ROWS, NODE_OWNER, PRESENCE)
