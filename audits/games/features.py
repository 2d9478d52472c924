"""Games about features: of a node, of a neighbourhood, or of a client as a whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack
from attacks.questions import (
    ClientInputs,
    ClientWords,
    FirstLatents,
    NeighbourhoodWords,
    NodeFeatures,
    RowSizes,
    SensitiveColumn,
)
from audits.foreign import ForeignTruth
from audits.games.base import (
    BinaryGame,
    NotAsked,
    OutcomeGame,
    choose_targets,
    choose_victim,
    other_nodes,
    plays,
)
from audits.games.kriging import KNOWN_SHARE, MANY_KNOWN, krige_rows
from audits.known_graph import known_edges
from audits.metrics import area_under_curve
from audits.replay import public_nodes, replay_field
from audits.truth import Truth
from securefg.foundation.ranks import row_ranks
from securefg.foundation.unique import numbers_except
from securefg.models.graph_operators import operator_matrix
from securefg.protocol.meanings import GraphSums, NodeRows
from securefg.protocol.transcript import Adversary

MANY_NODES = 100


@dataclass(frozen=True)
class FeatureGame(OutcomeGame):
    """A game about rows of features."""

    def extras(self, guess: Array) -> dict[str, float]:
        """Return the share of rows that were recovered in all their entries, and of words the mean
        average precision."""
        size = np.abs(self.truth).max(1, keepdims=True)
        extra_metrics = {
            "exact_rows": float((np.abs(guess - self.truth) < 1e-3 * size).all(1).mean())
        }
        if self.outcome is words_ranked:
            extra_metrics["average_precision"] = mean_precision(guess, self.truth)
            extra_metrics["average_precision_of_prior"] = mean_precision(
                self.prior_guess, self.truth
            )
        return extra_metrics


def mean_precision(guess: Array, truth: NDArray[np.float32]) -> float:
    """Return the mean over rows of the average precision for which entries are not zero."""
    so = np.take_along_axis(truth != 0, np.argsort(-guess, axis=1, kind="stable"), 1)
    places = np.arange(1, so.shape[1] + 1)
    precision = so.cumsum(1) / places
    return float(((precision * so).sum(1) / np.maximum(so.sum(1), 1)).mean())


@plays(NodeFeatures)
def node_features(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> FeatureGame:
    """Ask for the features of nodes, when those of some other nodes are known from elsewhere.

    The prior is the mean of the known nodes' features, and for an adversary who knows the graph
    what they tell of their neighbours'. Nodes are one client's, or one of every client's where each
    holds one.
    """
    client, nodes = _reader_and_nodes(truth, adversary)
    if truth.graph.features.dim() != 2:
        raise CannotAttack("nodes hold several samples each; there is no one row to recover")
    features, rows_of = truth.features(), places_of_rows(truth)
    nodes = choose_targets(nodes[np.abs(features[nodes]).sum(1) > 0], len(nodes), rng, 20)
    count = min(MANY_KNOWN, int(KNOWN_SHARE * len(nodes)))
    known, wanted = nodes[:count], nodes[count : count + MANY_NODES]
    rows = features[known]
    edges = known_edges(truth, adversary)
    prior = krige_rows(rows.astype(np.float64), known, wanted, edges, len(features))
    sparse = (features[wanted] == 0).mean() > 0.5
    return FeatureGame(
        question=NodeFeatures(
            ids=rows_of[wanted],
            client=client,
            known_ids=rows_of[known],
            known=rows,
            known_prior=prior.known,
        ),
        metric="AUC over a node's words, mean of nodes" if sparse else "cosine with the features",
        unit="row",
        truth=features[wanted],
        outcome=words_ranked if sparse else row_cosines,
        prior_guess=prior.wanted,
        prepare=row_ranks if sparse else np.asarray,
    )


def _reader_and_nodes(truth: Truth, adversary: Adversary) -> tuple[int | None, NDArray[np.int64]]:
    partition = truth.experiment.partition
    if int(partition.sizes.max()) == 1:
        mine = set(adversary.clients)
        return None, np.array([k for k in range(partition.num_clients) if k not in mine])
    client = choose_victim(truth, adversary)
    if has_public_rows(truth):
        return client, public_nodes(truth).numpy()
    return client, truth.experiment.shards[client].node_ids.numpy()


def has_public_rows(truth: Truth | ForeignTruth) -> bool:
    """Return whether clients upload rows of public nodes and of no others."""
    rows = [m for m in truth.spoken.uploads.values() if isinstance(m, NodeRows)]
    return bool(rows) and all(meaning.index == "public" for meaning in rows)


def places_of_rows(truth: Truth) -> NDArray[np.int64]:
    """Return for every node the name by which an attack finds its row: its id, or its place among
    the public nodes."""
    row_places = np.arange(truth.graph.num_nodes)
    if has_public_rows(truth):
        nodes = public_nodes(truth).numpy()
        row_places[nodes] = np.arange(len(nodes))
    return row_places


def words_ranked(ranks: Array, truth: NDArray[np.float32]) -> Array:
    """Return row by row the AUC for which entries are not zero, from the ranks of the guess."""
    so = truth != 0
    ones, total = so.sum(1), so.shape[1]
    top = (ranks * so).sum(1) - ones * (ones + 1) / 2
    found: Array = top / np.maximum(ones * (total - ones), 1)
    return found.clip(0, 1)


def row_cosines(guess: Array, truth: NDArray[np.floating]) -> Array:
    """Return row by row the cosine, zero where it is negative."""
    norms = np.linalg.norm(guess, axis=1) * np.linalg.norm(truth, axis=1)
    found: Array = (guess * truth).sum(1) / np.maximum(norms, 1e-12)
    return found.clip(0, 1)


MANY_SENSITIVE, LEAST_OF_EACH = 300, 10


@plays(SensitiveColumn)
def sensitive_column(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask whether a person's sensitive number is above the median.

    The column is named in `audit.sensitive`. The adversary knows the column of some other nodes: of
    its own, where it is a client, else of a random third. The prior is chance, since without the
    run nothing tells the targets apart.
    """
    column = truth.config.audit.sensitive
    if column is None:
        raise NotAsked("no sensitive column is named (audit.sensitive)")
    if truth.graph.features.dim() != 2 or column >= truth.graph.num_features:
        found = f"{truth.graph.num_features} columns of one row per node"
        raise CannotAttack(f"audit.sensitive is {column}; the features have {found}")
    values = truth.features()[:, column]
    client, known, others = _reader_and_splits(truth, adversary, rng)
    rows_of = places_of_rows(truth) if adversary.kind == "server" else np.arange(len(values))
    high = values > np.median(values)
    if min(high[others].sum(), (~high[others]).sum()) < LEAST_OF_EACH:
        raise CannotAttack(
            f"column {column} is above its median for {high[others].sum()} of {len(others)} nodes; "
            f"at least {LEAST_OF_EACH} above it and not are needed"
        )
    wanted = rng.permutation(others)[:MANY_SENSITIVE]
    return BinaryGame(
        question=SensitiveColumn(
            ids=rows_of[wanted],
            client=client,
            known_ids=rows_of[known],
            known=high[known].astype(np.float32)[:, None],
        ),
        metric=f"AUC over nodes whose column {column} is above the median and others",
        unit="row",
        truth=high[wanted].astype(np.int64),
    )


def _reader_and_splits(
    truth: Truth, adversary: Adversary, rng: np.random.Generator
) -> tuple[int | None, NDArray[np.int64], NDArray[np.int64]]:
    """Return the client whose rows are read, the nodes that are known, and the nodes that are
    not."""
    x = truth.experiment
    held = truth.held_nodes
    if adversary.clients:
        own = torch.cat([x.shards[k].node_ids for k in sorted(adversary.clients)]).numpy()
        if len(own) >= LEAST_OF_EACH:
            return None, rng.permutation(own)[:MANY_KNOWN], numbers_except(held, own)
        held = numbers_except(held, own)  # clients of one node each: it knows some from elsewhere
    client = None
    if adversary.kind == "server" and int(x.partition.sizes.max()) > 1:
        client = choose_victim(truth, adversary)
        held = _reader_and_nodes(truth, adversary)[1]
    mixed = rng.permutation(held)
    count = min(MANY_KNOWN, int(KNOWN_SHARE * len(mixed)))
    return client, mixed[:count], mixed[count:]


MANY_USERS = 500


@plays(RowSizes)
def row_sizes(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> OutcomeGame:
    """Ask how many words each user has. A guess is right if it is exactly that number.

    The prior is the most frequent number among all users.
    """
    features = truth.features()
    if not np.isin(features[:50], (0, 1)).all():
        raise CannotAttack("features are not 0 and 1: a user has no number of words")
    sizes = (features != 0).sum(-1).astype(np.float64)
    others = np.setdiff1d(np.arange(len(sizes)), sorted(adversary.clients))
    wanted = choose_targets(others, MANY_USERS, rng)
    values, counts = np.unique(sizes, return_counts=True)
    return OutcomeGame(
        question=RowSizes(ids=wanted),
        metric="share of users whose number of words is found",
        unit="row",
        truth=sizes[wanted],
        outcome=is_the_number,
        prior_guess=np.full(len(wanted), values[counts.argmax()]),
    )


def is_the_number(guess: Array, truth: NDArray[np.float64]) -> Array:
    """Return 1 where the guess rounds to the number, else 0."""
    return (np.abs(guess - truth) < 0.5).astype(np.float64)


@plays(ClientWords)
def client_words(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Ask which words (feature columns) occur in one client's documents.

    The prior is how often a word occurs in a tenth of the nodes that this client does not hold.
    """
    client = choose_victim(truth, adversary)
    used = (truth.experiment.shards[client].graph.features != 0).any(0).numpy()
    if used.all() or not used.any():
        raise CannotAttack(f"client {client} uses all of the features, or none: nothing to guess")
    order = rng.permutation(len(used))
    elsewhere = other_nodes(truth, client)
    sample = rng.permutation(elsewhere)[: max(10, len(elsewhere) // 10)]
    frequency = (truth.features()[sample] != 0).mean(0) if len(sample) else np.zeros(len(used))
    return BinaryGame(
        question=ClientWords(ids=order, client=client),
        metric="AUC over the words of the vocabulary",
        unit="word of a client",
        truth=used[order].astype(np.int64),
        prior_scores=frequency[order].astype(np.float64),
    )


MANY_NEIGHBOURHOODS = 60


@plays(NeighbourhoodWords)
def neighbourhood_words(
    truth: Truth, adversary: Adversary, rng: np.random.Generator
) -> OutcomeGame:
    """Ask which words occur at a node or its neighbours, as one client holds them.

    The prior is the words that are most frequent in the nodes that this client does not hold.
    """
    client = choose_victim(truth, adversary)
    shard = truth.experiment.shards[client]
    used = used_words(shard.graph.features.numpy())
    around = used.copy()
    source, target = shard.graph.edge_index.numpy()
    np.logical_or.at(around, target, used[source])
    local = choose_targets(np.flatnonzero(around.any(1)), MANY_NEIGHBOURHOODS, rng)
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
    """Return (N, d): which words a node uses, in any of its samples."""
    used: NDArray[np.bool_] = features.reshape(len(features), -1, features.shape[-1]) != 0
    found: NDArray[np.bool_] = np.any(used, axis=1)
    return found


def found_words(guess: Array, truth: NDArray[np.bool_]) -> Array:
    """Return, of the k highest entries of a guess, the share that is true, k being the number of
    words."""
    ranks = np.argsort(np.argsort(-guess, axis=1, kind="stable"), axis=1)
    counts = truth.sum(1)
    hits: Array = ((ranks < counts[:, None]) & truth).sum(1) / np.maximum(counts, 1)
    return hits


MANY_CLIENTS = 100


@plays(ClientInputs)
def client_inputs(
    truth: Truth | ForeignTruth, adversary: Adversary, rng: np.random.Generator
) -> OutcomeGame:
    """Ask which inputs are not zero in all of a client's samples, in a foreign exchange.

    It is scored client by client: clients with many samples use more inputs than others, and an AUC
    over all of them together would pay for knowing who is large. The prior is the share of the
    other clients' samples that use the input. There is no prior if that share is below chance on
    these clients.
    """
    known = {k: rows != 0 for k, rows in truth.samples.items() if len(rows)}
    mixed = [k for k, rows in known.items() if rows.any() and not rows.any(0).all()]
    clients = np.array(sorted(set(mixed) - adversary.clients), np.int64)
    if not len(clients):
        raise CannotAttack("every client uses all of the inputs, or none: nothing to guess")
    wanted = choose_targets(clients, MANY_CLIENTS, rng)
    used = np.stack([known[int(k)].any(0) for k in wanted])
    others = [np.concatenate([r for k, r in known.items() if k != own]) for own in wanted]
    prior = np.stack([rows.mean(0) for rows in others])
    if inputs_found(prior, used).mean() < 0.5:
        prior = np.zeros(used.shape)
    return OutcomeGame(
        question=ClientInputs(ids=wanted),
        metric="AUC over a client's inputs, mean of clients",
        unit="input of a client",
        truth=used,
        outcome=inputs_found,
        prior_guess=prior,
    )


def inputs_found(guess: Array, truth: NDArray[np.bool_]) -> Array:
    """Return client by client the AUC of the scores for which inputs are used."""
    return np.array(
        [area_under_curve(used, scores) for scores, used in zip(guess, truth, strict=True)]
    )


MANY_LATENTS = 1000
LATENT = NodeRows("latent", "client")
EXACT = 0.01


@dataclass(frozen=True)
class LatentGame(OutcomeGame):
    """A game about latents."""

    def extras(self, guess: Array) -> dict[str, float]:
        """Return the share of latents that are known within a hundredth of their size."""
        error = np.linalg.norm(guess - self.truth, axis=1)
        return {"exact_latents": float((error < EXACT * np.linalg.norm(self.truth, axis=1)).mean())}


@plays(FirstLatents)
def first_latents(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> LatentGame:
    """Ask for the first latent of each user. The prior is the mean of all users' latents."""
    latents = unmasked_latents(truth)
    used = np.flatnonzero(np.abs(latents).max(1) > 0)
    wanted = choose_targets(np.setdiff1d(used, sorted(adversary.clients)), MANY_LATENTS, rng)
    centre = latents.mean(0)
    return LatentGame(
        question=FirstLatents(ids=wanted),
        metric="cosine with the latent",
        unit="row",
        truth=latents[wanted],
        outcome=row_cosines,
        prior_guess=np.tile(centre, (len(wanted), 1)),
    )


def unmasked_latents(truth: Truth) -> NDArray[np.float64]:
    """Return the latents of all users, made again by the method's own hosts before anything is
    masked or noised."""
    x = truth.experiment
    sums = [m for m in truth.spoken.uploads.values() if m.fits(GraphSums(of=LATENT))]
    if not sums:
        return replay_field(truth, x.shards, LATENT).double().numpy()
    meaning = sums[0]
    assert isinstance(meaning, GraphSums)
    assert meaning.by is not None
    assert x.public.edge_index is not None
    parts = replay_field(truth, x.shards, meaning).double().numpy()  # (users, sums, width)
    weights = operator_matrix(meaning.by, x.public.edge_index, x.public.num_nodes)
    largest = np.abs(weights).argmax(0)  # of the sums that user j is in, where it weighs most
    users = np.arange(len(parts))
    weight = weights[largest, users]
    found: NDArray[np.float64] = np.where(
        weight[:, None] > 0, parts[users, largest] / np.maximum(weight, 1e-12)[:, None], 0.0
    )
    return found
