"""Games about lists of records: which record is whose, and which does a client hold?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from attacks.base import Array, CannotAttack
from attacks.questions import CandidateRows, Identify, ListedRecords
from audits.games.base import BinaryGame, OutcomeGame, choose_targets, plays
from audits.games.kriging import KNOWN_SHARE, Kriged, known_apart, krige_rows
from audits.known_graph import known_edges
from audits.truth import Truth
from securefg.data.graph import Graph
from securefg.foundation.ranks import row_ranks
from securefg.foundation.unique import numbers_except
from securefg.protocol.transcript import Adversary

MANY_CANDIDATES = 300
TOP = 10
UNSEEN = 1e-3
"""Variance granted to entries that no known row has, in squares of the largest."""


@dataclass(frozen=True)
class CandidateGame(OutcomeGame):
    """A game about the ranks of candidates."""

    def extras(self, guess: Array) -> dict[str, float]:
        """Return the first places, how ranks are spread, and the mean rank by the guess without the
        prior."""
        ranks = candidate_percentiles(guess, self.truth)
        own = guess[np.arange(len(guess)), self.truth]
        above = (guess > own[:, None]).sum(1)
        tied = (guess == own[:, None]).sum(1)
        low, middle, high = np.quantile(ranks, [0.1, 0.5, 0.9])
        return {
            "candidates": float(guess.shape[1]),
            "first": float(((above == 0) / tied).mean()),
            "among_the_first_ten": float((above < TOP).mean()),
            "evidence_alone": float(
                candidate_percentiles(guess - self.prior_guess, self.truth).mean()
            ),
            "percentile_10": float(low),
            "percentile_50": float(middle),
            "percentile_90": float(high),
        }


@plays(CandidateRows)
def candidate_rows(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> CandidateGame:
    """Ask whose row is whose among some hundred candidates, by where the true row is ranked.

    A guess is a score for every candidate. The outcome is the share of the other candidates that
    the true one is ranked above, ties by half: chance has a half, and the mean is the AUC of
    telling the true row from another. Noise that makes the first place hopeless still leaves ranks
    to measure. The prior of an adversary who knows the graph is how well a candidate fits to what
    known rows tell of their neighbours'. For everybody else it is chance.
    """
    if truth.graph.features.dim() != 2:
        raise CannotAttack("nodes hold several samples each; there is no one row to find")
    if int(truth.experiment.partition.sizes.max()) > 1:
        raise CannotAttack("clients hold several nodes each: an upload is not of one row")
    features = truth.features()
    others = np.setdiff1d(np.flatnonzero(np.abs(features).sum(1)), sorted(adversary.clients))
    most = max(2, int((1 - KNOWN_SHARE) * len(others)))
    wanted = choose_targets(others, min(MANY_CANDIDATES, most), rng)
    order = rng.permutation(len(wanted))
    known, edges = known_apart(others, wanted, rng), known_edges(truth, adversary)
    prior = np.zeros((len(wanted), len(wanted)))
    if edges is not None and len(known):
        rows = features[known].astype(np.float64)
        told = krige_rows(rows, known, wanted, edges, len(features))
        prior = neighbours_say(rows, told, features[wanted[order]].astype(np.float64))
    return CandidateGame(
        question=CandidateRows(ids=wanted, candidates=features[wanted[order]]),
        metric="share of the other candidates ranked below the true row",
        unit="row",
        truth=np.argsort(order),
        outcome=candidate_percentiles,
        prior_guess=prior,
    )


def candidate_percentiles(guess: Array, truth: NDArray[np.int64]) -> Array:
    """Return for every target the share of other candidates below the true one, ties by half."""
    own = guess[np.arange(len(guess)), truth][:, None]
    below, tied = (guess < own).sum(1), (guess == own).sum(1) - 1
    found: Array = (below + tied / 2) / (guess.shape[1] - 1)
    return found


def neighbours_say(rows: Array, kriged_rows: Kriged, candidates: Array) -> Array:
    """Return how well every candidate fits to what is told of a target, as a log likelihood ratio.

    Fits are ranked, and ranks are normal scores times the separation d' = sqrt(2) ndtri(AUC) that
    known rows show among themselves: the ratio of two normals that far apart.
    """
    mean = rows.mean(0)
    spread = np.square(rows - kriged_rows.known).mean(0) + UNSEEN * np.abs(rows).max() ** 2

    def fits(guess: Array, of: Array) -> Array:
        found: Array = ((guess - mean) / spread) @ (of - mean).T
        return found

    shown = candidate_percentiles(fits(kriged_rows.known, rows), np.arange(len(rows))).mean()
    apart = math.sqrt(2) * float(ndtri(np.clip(shown, 0.5, 1 - 1 / len(rows))))
    ranks = row_ranks(fits(kriged_rows.wanted, candidates))
    weighed: Array = apart * ndtri((ranks - 0.5) / len(candidates))
    return weighed


MANY_TARGETS = 500


@plays(Identify)
def identify(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> OutcomeGame:
    """Ask which row of a pool is whose. The pool holds everybody's row, in an order of its own.

    The prior is a guess at random. Users with the same row are one: either counts as found.
    """
    if truth.graph.features.dim() != 2:
        raise CannotAttack("nodes hold several samples each; there is no one row to find")
    features = truth.features()
    order = rng.permutation(len(features))
    pool = features[order]
    others = np.setdiff1d(np.arange(len(features)), sorted(adversary.clients))
    wanted = choose_targets(others, MANY_TARGETS, rng)

    def same_row(guess: Array, ids: NDArray[np.int64]) -> Array:
        same: Array = (pool[guess.astype(np.int64)] == features[ids]).all(1).astype(np.float64)
        return same

    return OutcomeGame(
        question=Identify(ids=wanted, candidates=pool),
        metric=f"share found in a pool of {len(pool)}",
        unit="row",
        truth=wanted,
        outcome=same_row,
        prior_guess=rng.integers(len(pool), size=len(wanted)).astype(np.float64),
    )


MANY_CLIENTS, MANY_NODES, DECOYS = 6, 200, 2
LEAST = 3


@dataclass(frozen=True)
class RecordGame(BinaryGame):
    """A game about records of a list. `reached` marks records that a label reaches in one step."""

    reached: NDArray[np.bool_] | None = None

    def extras(self, guess: Array) -> dict[str, float]:
        """Return the share of the clients' records that score above every decoy, also of those
        reached."""
        sure = guess > guess[self.truth == 0].max()
        found = {"exact_nodes": float(sure[self.truth == 1].mean())}
        if self.reached is not None and self.reached.any():
            found["exact_nodes_near_labels"] = float(sure[self.reached].mean())
        return found


@plays(ListedRecords)
def listed_records(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> RecordGame:
    """Ask which records of a list are in a client's graph, of some small clients.

    Targets are pairs of a client k and record c of a list of n, as k n + c: all nodes of the
    client, and `DECOYS` times as many that it does not hold. The prior is how many clients hold the
    record.
    """
    chosen = small_clients(truth, adversary)[:MANY_CLIENTS]
    features, size = truth.features(), truth.graph.num_nodes
    if features.ndim != 2:
        raise CannotAttack("nodes hold several samples each")
    held = truth.held_nodes
    ids, is_inside, near = [], [], []
    for client in chosen:
        shard = truth.experiment.shards[client]
        own = shard.node_ids.numpy()
        others = rng.permutation(numbers_except(held, own))[: DECOYS * len(own)]
        ids.append(client * size + np.concatenate([own, others]))
        is_inside.append(np.arange(len(own) + len(others)) < len(own))
        near.append(np.concatenate([near_labels(shard.graph), np.zeros(len(others), bool)]))
    if all(side.all() for side in is_inside):
        raise CannotAttack("the small clients hold every node: no other record is left to compare")
    order = rng.permutation(sum(map(len, ids)))
    record_ids = np.concatenate(ids)[order]
    holders = np.bincount(truth.experiment.partition.nodes.numpy(), minlength=size)
    return RecordGame(
        question=ListedRecords(ids=record_ids, known_ids=np.arange(size), known=features),
        metric="AUC over records of a client's graph and others",
        unit="record",
        truth=np.concatenate(is_inside)[order].astype(np.int64),
        prior_scores=holders[record_ids % size].astype(np.float64),
        reached=np.concatenate(near)[order],
    )


def small_clients(truth: Truth, adversary: Adversary) -> list[int]:
    """Return clients of few nodes with a label and an edge. Clients with the most labels come
    first."""
    labels = {}
    for client, count in enumerate(truth.experiment.partition.sizes):
        if client in adversary.clients or not LEAST <= int(count) <= MANY_NODES:
            continue
        graph = truth.experiment.shards[client].graph
        trained = int(graph.split.train.sum())
        if trained and graph.num_edges:
            labels[client] = trained
    if not labels:
        raise CannotAttack(f"no client with a label and an edge has {LEAST} to {MANY_NODES} nodes")
    return sorted(labels, key=lambda k: -labels[k])


def near_labels(graph: Graph) -> NDArray[np.bool_]:
    """Return which nodes are labelled, or have a row that reaches a label in one step."""
    train: NDArray[np.bool_] = graph.split.train.reshape(graph.num_nodes, -1).any(1).numpy()
    source, target = graph.edge_index.numpy()
    found = train.copy()
    found[source[train[target]]] = True
    return found
