"""What did a user's data make of its first latent? Prior: the mean of all users' latents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from attacks.base import Array, Targets
from audits.games.base import OutcomeGame, choose
from audits.truth import Truth
from securefg.federation.channel import Turn
from securefg.federation.roles import Site
from securefg.foundation.streams import derive_seed
from securefg.methods.nfedgnn import Call, Latents
from securefg.protocol.codec import Clients
from securefg.protocol.transcript import Adversary

MANY_TARGETS = 1000
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
    """Of all users, made again by the method's own host before anything is masked or noised."""
    x, config = truth.experiment, truth.config
    seed = derive_seed(config.seed, "clients")
    site = Site(x.shards, config.method, config.training, seed, torch.device("cpu"))
    turn = Turn(round=1, step=1, clients=Clients(((0, len(x.shards)),)))
    reply = x.method.make_host(site).handle(Call(number=1, weights=None), turn)
    assert isinstance(reply, Latents)
    found: NDArray[np.float64] = reply.latent.double().numpy()
    return found


def _cosine(guess: Array, truth: NDArray[np.float64]) -> Array:
    norms = np.linalg.norm(guess, axis=1) * np.linalg.norm(truth, axis=1)
    found: Array = (guess * truth).sum(1) / np.maximum(norms, 1e-12)
    return found.clip(0, 1)
