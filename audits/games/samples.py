"""Games about the samples of clients: one row per sample is guessed, in any order."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack
from attacks.questions import ClientSamples, MatchedSamples, TrainedSamples, TrainingSamples
from audits.foreign import ForeignTruth
from audits.games.base import OutcomeGame, choose_targets, plays, somebody_elses
from audits.games.kriging import KNOWN_SHARE, known_apart, krige_rows
from audits.known_graph import known_edges
from audits.truth import Truth
from securefg.protocol.transcript import Adversary

MANY_CLIENTS = 300


@dataclass(frozen=True)
class SampleGame(OutcomeGame):
    """A game about clients' samples."""

    def extras(self, guess: Array) -> dict[str, float]:
        """Return the share of samples that were recovered in all their entries."""
        return {"exact_samples": float(exact_share(guess, self.truth).mean())}


@plays(ClientSamples)
def client_samples(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> SampleGame:
    """Ask for each client's samples.

    The prior for one sample is the mean of known clients', or what they tell of their neighbours'.
    For several samples it is a random subspace as large.
    """
    features = truth.features()
    samples: Array = (features if features.ndim == 3 else features[:, None]).astype(np.float64)
    others = np.setdiff1d(np.arange(len(samples)), sorted(adversary.clients))
    others = others[np.abs(samples[others]).sum((1, 2)) > 0]
    least = int((1 - KNOWN_SHARE) * len(others))
    wanted = choose_targets(others, min(MANY_CLIENTS, max(least, 2)), rng)
    count, width = samples.shape[1:]
    if count >= width:
        raise CannotAttack(f"{count} samples of {width} numbers span everything: nothing to find")
    if count == 1:
        prior = one_each(truth, adversary, samples[:, 0], others, wanted, rng)
    else:
        drawn = rng.standard_normal((len(wanted), min(count, width), width))
        prior = np.zeros((len(wanted), count, width))
        prior[:, : drawn.shape[1]] = np.linalg.qr(drawn.transpose(0, 2, 1))[0].transpose(0, 2, 1)
    return SampleGame(
        question=ClientSamples(ids=wanted, num_samples=count),
        metric="cosine with the nearest guess" if count == 1 else "share within the guessed span",
        unit="sample",
        truth=samples[wanted],
        outcome=nearest_cosine if count == 1 else share_within,
        prior_guess=prior,
    )


def one_each(
    truth: Truth,
    adversary: Adversary,
    rows: Array,
    others: NDArray[np.int64],
    wanted: NDArray[np.int64],
    rng: np.random.Generator,
) -> Array:
    """Return (wanted, 1, d): a guess of the one sample of each, from known clients' samples."""
    known = known_apart(others, wanted, rng)
    if not len(known):
        raise CannotAttack("no client is left whose sample could be known from elsewhere")
    edges = known_edges(truth, adversary)
    return krige_rows(rows[known], known, wanted, edges, len(rows)).wanted[:, None]


def nearest_cosine(guess: Array, truth: NDArray[np.float64]) -> Array:
    """Return the cosine of a client's sample with the best of its guesses."""
    unit = [x / np.maximum(np.linalg.norm(x, axis=2, keepdims=True), 1e-12) for x in (guess, truth)]
    cosine = np.einsum("ngd,nsd->nsg", *unit)
    best: Array = cosine.max(2).mean(1)
    return best.clip(0, 1)


def share_within(guess: Array, truth: NDArray[np.float64]) -> Array:
    """Return how much of the samples lies in the span of the guesses: |projection| / |sample|."""
    shares_within = []
    for rows, samples in zip(guess, truth, strict=True):
        basis = np.linalg.qr(rows[np.abs(rows).sum(1) > 0].T)[0]
        inside = np.linalg.norm(samples @ basis, axis=1)
        shares_within.append((inside / np.maximum(np.linalg.norm(samples, axis=1), 1e-12)).mean())
    return np.array(shares_within).clip(0, 1)


def exact_share(guess: Array, truth: NDArray[np.float64]) -> Array:
    """Return the share of a client's samples that are among its guesses, entry by entry."""
    size = np.abs(truth).max((1, 2))[:, None, None, None]
    apart = np.abs(guess[:, None] - truth[:, :, None]) > 1e-3 * size
    found: Array = (~apart.any(3)).any(2).mean(1)
    return found


MANY_TRAINERS = 12
NEARLY = 0.95


@dataclass(frozen=True)
class TrainingSampleGame(OutcomeGame):
    """A game about samples that were trained on."""

    def extras(self, guess: Array) -> dict[str, float]:
        """Return the share of samples with a guess of cosine above 0.95."""
        found = [
            nearest_cosine(guess, self.truth[:, [s]]) > NEARLY for s in range(self.truth.shape[1])
        ]
        return {"samples_nearly_found": float(np.mean(found))}


@plays(TrainingSamples)
def training_samples(
    truth: Truth, adversary: Adversary, rng: np.random.Generator
) -> TrainingSampleGame:
    """Ask for the samples that a client trained on, scored by the guess nearest to each.

    The prior is another client's training samples: the nearest of as many rows is near by chance.
    """
    samples = samples_by_client(truth)
    with_samples = np.array(sorted(samples.keys() - adversary.clients), dtype=np.int64)
    wanted = choose_targets(with_samples, MANY_TRAINERS, rng)
    rows = np.stack([samples[int(k)] for k in wanted])
    return TrainingSampleGame(
        question=TrainingSamples(ids=wanted, num_samples=rows.shape[1]),
        metric="cosine with the nearest guess, mean over a client's samples",
        unit="sample",
        truth=rows,
        outcome=nearest_cosine,
        prior_guess=somebody_elses(rows, rng),
    )


def samples_by_client(truth: Truth) -> dict[int, NDArray[np.float64]]:
    """Return the samples of every client that trains, (samples, d)."""
    if len({len(rows) for rows in truth.samples.values()}) > 1:
        raise CannotAttack("clients train on different numbers of samples")
    return truth.samples


MANY_SAMPLED = 300
MOST_SAMPLES = 64
EXACT = 1e-3


@dataclass(frozen=True)
class TrainedSampleGame(OutcomeGame):
    """A game about clients' samples, padded to one number with rows of zeros."""

    def extras(self, guess: Array) -> dict[str, float]:
        """Return the share of clients' samples that were recovered in all their entries.

        The same is told for clients with one sample and with several. A sample that the prior has
        already (another client holds it too) was not recovered.
        """
        rows = zip(guess, self.prior_guess, self.truth, strict=True)
        shares = np.array([_exact_share(_new_guesses(g, p), _real_rows(t)) for g, p, t in rows])
        single = np.array([len(_real_rows(t)) == 1 for t in self.truth])
        groups = {"": np.ones(len(single), bool), "_of_one": single, "_of_several": ~single}
        return {
            f"exact_samples{name}": float(shares[chosen].mean())
            for name, chosen in groups.items()
            if chosen.any()
        }


@plays(TrainedSamples)
def trained_samples(
    truth: Truth | ForeignTruth, adversary: Adversary, rng: np.random.Generator
) -> TrainedSampleGame:
    """Ask for the samples of a foreign exchange's clients, scored by the guess nearest to each.

    Every client gets as many guesses as the largest has samples. The prior has as many: samples of
    other clients, drawn at random, and their mean. Samples of zeros are nothing to find. For a
    large client, a random choice is sought.
    """
    samples = {k: rows[np.abs(rows).sum(1) > 0] for k, rows in truth.samples.items()}
    clients = [k for k, rows in samples.items() if len(rows) and k not in adversary.clients]
    wanted = choose_targets(np.array(sorted(clients), np.int64), MANY_SAMPLED, rng)
    kept = [rng.permutation(samples[int(k)])[:MOST_SAMPLES] for k in wanted]
    count = max(map(len, kept))
    padded = np.zeros((len(kept), count, next(iter(samples.values())).shape[1]))
    for row, rows in zip(padded, kept, strict=True):
        row[: len(rows)] = rows
    return TrainedSampleGame(
        question=TrainedSamples(ids=wanted, num_samples=count),
        metric="cosine with the nearest guess, mean over a client's samples",
        unit="sample",
        truth=padded,
        outcome=nearest_of_padded,
        prior_guess=np.stack([_other_samples(samples, int(k), count, rng) for k in wanted]),
    )


FEW_CLIENTS = 6


@plays(MatchedSamples)
def matched_samples(
    truth: ForeignTruth, adversary: Adversary, rng: np.random.Generator
) -> TrainedSampleGame:
    """Ask for the samples of a few clients: a search for each costs seconds."""
    game = trained_samples(truth, adversary, rng)
    asked = game.question
    assert isinstance(asked, TrainedSamples)
    shape = next(iter(truth.inputs.values())).shape[1:]
    question = MatchedSamples(
        ids=asked.ids[:FEW_CLIENTS], num_samples=asked.num_samples, shape=shape
    )
    few = slice(FEW_CLIENTS)
    return replace(
        game, question=question, truth=game.truth[few], prior_guess=game.prior_guess[few]
    )


def _other_samples(
    samples: dict[int, Array], client: int, count: int, rng: np.random.Generator
) -> Array:
    others = [rows for k, rows in samples.items() if k != client]
    if not others:
        raise CannotAttack("samples of one client: what could be guessed of it is not known")
    pool = np.concatenate(others)
    drawn = pool[rng.integers(len(pool), size=count)]
    drawn[0] = pool.mean(0)
    return drawn


def nearest_of_padded(guess: Array, truth: NDArray[np.float64]) -> Array:
    """Return the mean, over a client's samples, of the cosine with the best guess."""
    client_cosines = []
    for guesses, padded in zip(guess, truth, strict=True):
        one, other = (_unit_rows(rows) for rows in (_real_rows(padded), guesses))
        client_cosines.append(float((one @ other.T).max(1).mean()))
    return np.array(client_cosines).clip(0, 1)


def _unit_rows(rows: Array) -> Array:
    found: Array = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return found


def _real_rows(padded: Array) -> Array:
    found: Array = padded[np.abs(padded).sum(1) > 0]
    return found


def _new_guesses(guess: Array, prior: Array) -> Array:
    """Return the guesses without those that the prior has."""
    found: Array = guess * (guess[:, None] != prior[None]).any(2).all(1)[:, None]
    return found


def _exact_share(guess: Array, samples: Array) -> float:
    apart = np.abs(guess[None] - samples[:, None]).max(2) > EXACT * np.abs(samples).max()
    return float((~apart).any(1).mean())
