"""Which label has a public node, and was it trained on? Uploaded rows and known labels tell."""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, View
from attacks.decoders import RIDGE_ROUNDS, ridge_decoded
from attacks.questions import Ids, PublicLabels, PublicMembers
from attacks.rows import embedding_rows, list_uploaders, noise_of
from securefg.protocol.meanings import NodeRows

PUBLIC_ROWS = NodeRows(index="public")
PARTS, RIDGE = 5, 1.0


def public_labels(view: View, question: PublicLabels, rng: np.random.Generator) -> Array:
    """Return the label that a classifier reads in every client's row of a node, taught by known
    labels.

    Each client's rows have a space of their own, so each has a classifier of its own, a kernel
    ridge. Their scores are added.
    """
    taught = one_hot(question.known_labels, question.num_classes) - 1 / question.num_classes
    scores = np.zeros((len(question.ids), question.num_classes))
    for client in list_uploaders(view, question.client, PUBLIC_ROWS):
        rows = first_and_last(view, client)
        scores += kernel_scores(*standardised(rows[question.known_ids], rows[question.ids]), taught)
    found: Array = scores.argmax(1).astype(np.float64)
    return found


def kernel_scores(known: Array, wanted: Array, taught: Array) -> Array:
    """Return kernel ridge regression with a Gaussian kernel as wide as the median distance."""
    among, across = _distances(known, known), _distances(wanted, known)
    width = max(float(np.median(among)), 1e-12)
    weights = np.linalg.solve(np.exp(-among / width) + RIDGE * np.eye(len(known)), taught)
    found: Array = np.exp(-across / width) @ weights
    return found


def _distances(one: Array, other: Array) -> Array:
    """Return the squared distances between rows."""
    squares = (one**2).sum(1)[:, None] + (other**2).sum(1) - 2 * one @ other.T
    found: Array = squares.clip(min=0)
    return found


def first_and_last(view: View, client: int) -> Array:
    """Return a client's rows of its first and its last upload side by side.

    The rounds between say nearly the same and teach a classifier noise. Noise averages out over
    rounds, so noised rows are summed.
    """
    rounds = embedding_rows(view, client, PUBLIC_ROWS)
    if noise_of(view, PUBLIC_ROWS) is not None:
        noised: Array = np.sum(list(rounds.values()), axis=0)
        return noised
    found: Array = np.concatenate([rounds[min(rounds)], rounds[max(rounds)]], 1)
    return found


def standardised(known: Array, wanted: Array) -> tuple[Array, Array]:
    """Return both with the mean and the spread of the known rows taken off."""
    mean, spread = known.mean(0), known.std(0) + 1e-12
    return (known - mean) / spread, (wanted - mean) / spread


def one_hot(labels: Ids, num_classes: int) -> Array:
    """Return (n, classes) with 1 at every label."""
    found: Array = np.eye(num_classes)[labels]
    return found


PUBLIC_LABELS = Attack(
    name="public_labels",
    summary="labels of public nodes that nobody trained on, from their uploaded rows",
    source="kernel ridge classification of embeddings; attribute inference after Duddu et al. 2020",
    needs=(PUBLIC_ROWS,),
    assumes="uploaded rows of clients or their sum, and the labels of the training nodes",
    adversaries=frozenset({"server"}),
    question=PublicLabels,
    floor=0.02,
    expected="0.85 on Cora from a trained layer, where smoothed features have 0.76",
    exposes="a class of a person that nobody has told",
    stopped_by="noise on the rows; masks do not",
    run=public_labels,
    rounds=RIDGE_ROUNDS,
)


def public_members(view: View, question: PublicMembers, rng: np.random.Generator) -> Array:
    """Score nodes by how clearly a ridge classifier that was taught by the others reads their
    label.

    Training pulls the rows of its own nodes apart by class. The classifier is taught by four fifths
    of the targets with their known labels, and scores the other fifth.
    """
    rows = first_and_last(view, question.client)[question.ids]
    part = rng.permutation(len(rows)) % PARTS
    member_scores = np.zeros(len(rows))
    for number in range(PARTS):
        out = part == number
        known, wanted = standardised(rows[~out], rows[out])
        taught = one_hot(question.labels[~out], question.num_classes)
        member_scores[out] = margins(ridge_decoded(known, taught, wanted), question.labels[out])
    return member_scores


def margins(scores: Array, labels: Ids) -> Array:
    """Return how much the score of each label is above the largest other score."""
    every = np.arange(len(labels))
    others = scores.copy()
    others[every, labels] = -np.inf
    found: Array = scores[every, labels] - others.max(1)
    return found


PUBLIC_MEMBERS = Attack(
    name="public_members",
    summary="which public nodes' labels a classifier trained on, from their uploaded rows",
    source="derived here; confidence as in Yeom et al. 2018",
    needs=(NodeRows("hidden", "public"),),
    assumes="one client's uploaded rows or their sum, and the labels of the targets",
    adversaries=frozenset({"server"}),
    question=PublicMembers,
    floor=0.01,
    expected="AUC 0.54 to 0.6, where features alone have 0.46 to 0.54: weak",
    exposes="that a person's label was trained on",
    stopped_by="noise on the rows; dropout and few epochs; masks hardly",
    run=public_members,
    rounds=RIDGE_ROUNDS,
)

ATTACKS = (PUBLIC_LABELS, PUBLIC_MEMBERS)
