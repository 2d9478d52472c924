"""The game about which client trained on a sample, in recordings of other frameworks."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attacks.base import CannotAttack
from attacks.questions import TrainedMembers
from audits.foreign import ForeignTruth
from audits.games.base import plays
from audits.games.likeness import likeness_scores
from audits.games.membership import LEAST_TARGETS, MembershipGame
from audits.metrics import auc_interval
from securefg.protocol.transcript import Adversary

MANY_MEMBERS = 2000
FIRST_ROUNDS = 4
"""Attacks read no more: a client of later rounds would look like one that nobody attacks."""


@dataclass(frozen=True)
class Asked:
    """Samples, each with the client that is asked about and whether it trained on the sample."""

    samples: NDArray[np.float32]
    labels: NDArray[np.int64]
    clients: NDArray[np.int64]
    is_member: NDArray[np.bool_]

    def keep(self, rows: NDArray[np.int64]) -> Asked:
        """Return these rows."""
        return Asked(*(part[rows] for part in self.parts))

    @property
    def parts(self) -> tuple[np.ndarray, ...]:
        """Return all arrays in the order of the fields."""
        return self.samples, self.labels, self.clients, self.is_member


@plays(TrainedMembers)
def trained_members(
    truth: ForeignTruth, adversary: Adversary, rng: np.random.Generator
) -> MembershipGame:
    """Ask whether a client trained on a sample, of its own samples and as many that it never had.

    The latter are samples that nobody trained on (`held_out.npz`) or, without these, samples of
    other clients: an adversary who knows that one of the sites has a record asks which of them.
    Every sample is asked about once. There are as many of either side for each client and class,
    so that a class says nothing by itself. A client is not asked about if it is not among those
    of the first rounds, which attacks read, nor about another's sample of which it has a copy.
    """
    both = _without_copies(truth, _ask_clients(truth, adversary, rng))
    chosen = both.keep(_balance_sides(both, rng))
    if len(chosen.labels) < LEAST_TARGETS:
        raise CannotAttack(
            f"{len(chosen.labels)} samples to ask about; at least {LEAST_TARGETS} are needed, as "
            "many of a client as not, class by class"
        )
    return MembershipGame(
        question=TrainedMembers(
            ids=np.arange(len(chosen.labels)),
            samples=chosen.samples,
            labels=chosen.labels,
            clients=chosen.clients,
        ),
        metric="AUC over samples that a client trained on and samples that it never had"
        f"{_shift_words(chosen)}",
        unit="sample",
        truth=chosen.is_member.astype(np.int64),
    )


def _shift_words(chosen: Asked) -> str:
    """Return what the samples alone tell of membership, or nothing where that may be chance."""
    blind_auc = auc_interval(chosen.is_member.astype(np.int64), likeness_scores(*chosen.parts))
    if blind_auc.low <= 0.5:
        return ""
    return (
        f"; the samples alone tell them apart without the run (AUC {blind_auc.value:.2f}), so "
        "that a gain may be of their distribution"
    )


def _ask_clients(truth: ForeignTruth, adversary: Adversary, rng: np.random.Generator) -> Asked:
    inputs, labels = truth.inputs, truth.labels
    clients = sorted((inputs.keys() & labels.keys() & _early_senders(truth)) - adversary.clients)
    outside = truth.held_out
    if len(clients) < (1 if outside else 2):
        raise CannotAttack(
            f"samples of {len(clients)} clients and none that nobody trained on: at least two "
            "clients, or held_out.npz, are needed"
        )
    parts: list[Asked] = []
    for client in clients:
        rows = rng.permutation(len(labels[client]))
        kept = rows if outside is not None else rows[: (len(rows) + 1) // 2]
        parts.append(_about(inputs[client][kept], labels[client][kept], [client], True, rng))
        if outside is None:
            others, left = [k for k in clients if k != client], rows[len(kept) :]
            told = _about(inputs[client][left], labels[client][left], others, False, rng)
            parts.append(told)
    if outside is not None:
        parts.append(_about(*outside, clients, False, rng))
    return Asked(*(np.concatenate(same) for same in zip(*(p.parts for p in parts), strict=True)))


def _early_senders(truth: ForeignTruth) -> set[int]:
    """Return the clients that uploaded in the first rounds."""
    first = sorted({message.round for message in truth.uploads})[:FIRST_ROUNDS]
    return {k for m in truth.uploads if m.round in first for k in m.clients.numbers()}


def _without_copies(truth: ForeignTruth, both: Asked) -> Asked:
    """Return the questions without others' samples that the client in question holds too. Such a
    sample looks like a member, rightly, and would hide a leak."""
    held = {(k, _digest(row)) for k, rows in truth.inputs.items() for row in rows}
    pairs = zip(both.clients.tolist(), both.samples, strict=True)
    is_held = np.array([(k, _digest(sample)) in held for k, sample in pairs], bool)
    return both.keep(np.flatnonzero(both.is_member | ~is_held))


def _digest(sample: NDArray[np.float32]) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(sample + 0.0).data, digest_size=16).digest()


def _about(
    samples: np.ndarray,
    labels: NDArray[np.int64],
    clients: list[int],
    is_member: bool,
    rng: np.random.Generator,
) -> Asked:
    """Return the samples, each with one of the clients, class by class in turn."""
    asked = np.zeros(len(labels), np.int64)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        asked[rows] = np.resize(rng.permutation(clients), len(rows))
    return Asked(samples, labels, asked, np.full(len(labels), is_member))


def _balance_sides(both: Asked, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return as many rows of members as of others for every client and class, in random order."""
    chosen = [np.zeros((0, 2), np.int64)]
    for client, label in np.unique(np.stack([both.clients, both.labels], 1), axis=0):
        same = (both.clients == client) & (both.labels == label)
        sides = [
            rng.permutation(np.flatnonzero(same & side))
            for side in (both.is_member, ~both.is_member)
        ]
        count = min(map(len, sides))
        chosen.append(np.stack([side[:count] for side in sides], 1))
    # Whole pairs are kept, so that the rest stays balanced.
    kept = rng.permutation(np.concatenate(chosen))[: MANY_MEMBERS // 2]
    found: NDArray[np.int64] = rng.permutation(kept.ravel())
    return found
