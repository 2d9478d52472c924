"""What did a user's data make of its first latent? Prior: the mean of all users' latents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, Targets
from audits.games.base import OutcomeGame, choose
from audits.replay import replayed
from audits.truth import Truth
from securefg.models.graph_operators import operator_matrix
from securefg.protocol.meanings import GraphSums, NodeRows
from securefg.protocol.transcript import Adversary

MANY_TARGETS = 1000
LATENT = NodeRows("latent", "client")
EXACT = 0.01


@dataclass(frozen=True)
class LatentGame(OutcomeGame):
    """Beside the metric: the share of latents that are known within a hundredth of their size."""

    def extras(self, guess: Array) -> dict[str, float]:
        error = np.linalg.norm(guess - self.truth, axis=1)
        return {"exact_latents": float((error < EXACT * np.linalg.norm(self.truth, axis=1)).mean())}


def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> LatentGame:
    latents = first_latents(truth)
    used = np.flatnonzero(np.abs(latents).max(1) > 0)
    wanted = choose(np.setdiff1d(used, sorted(adversary.clients)), MANY_TARGETS, rng)
    centre = latents.mean(0)
    return LatentGame(
        targets=Targets(ids=wanted),
        metric="cosine with the latent",
        unit="row",
        truth=latents[wanted],
        outcome=_cosine,
        prior_guess=np.tile(centre, (len(wanted), 1)),
    )


def first_latents(truth: Truth) -> NDArray[np.float64]:
    """Of all users, made again by the method's own hosts before anything is masked or noised."""
    x = truth.experiment
    sums = [m for m in truth.spoken.uploads.values() if m.fits(GraphSums(of=LATENT))]
    if not sums:
        return replayed(truth, x.shards, LATENT).double().numpy()
    meaning = sums[0]
    assert isinstance(meaning, GraphSums)
    assert meaning.by is not None
    assert x.public.edge_index is not None
    parts = replayed(truth, x.shards, meaning).double().numpy()  # (users, sums, width)
    weights = operator_matrix(meaning.by, x.public.edge_index, x.public.num_nodes)
    largest = np.abs(weights).argmax(0)  # of the sums that user j is in, where it weighs most
    users = np.arange(len(parts))
    weight = weights[largest, users]
    found: NDArray[np.float64] = np.where(
        weight[:, None] > 0, parts[users, largest] / np.maximum(weight, 1e-12)[:, None], 0.0
    )
    return found


def _cosine(guess: Array, truth: NDArray[np.float64]) -> Array:
    norms = np.linalg.norm(guess, axis=1) * np.linalg.norm(truth, axis=1)
    found: Array = (guess * truth).sum(1) / np.maximum(norms, 1e-12)
    return found.clip(0, 1)
