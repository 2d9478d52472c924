"""What are an honest client's rows of the public nodes? Known up to a rotation is known.

The truth is what the client's data make of its rows in round 1, before noise and mask. The prior is
the mean of the colluders' own rows, which resemble the honest client's, since all embed the same
nodes. A guess is rotated onto the truth before it is scored, and so is the prior.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cosine_similarity

from attacks.base import Array, CannotAttack
from attacks.questions import RemainingClient
from audits.games.base import OutcomeGame, plays
from audits.games.shared_neighbour import public_rows
from audits.games.victims import victim
from audits.replay import public_nodes, replayed
from audits.truth import Truth
from securefg.models.procrustes import rotated, rotation
from securefg.protocol.transcript import Adversary

MANY_ROWS = 1000
EXACT = 1e-3


@dataclass(frozen=True)
class RowsGame(OutcomeGame):
    """Beside the metric: the share of rows that are known but for rounding, and whose they are."""

    honest: int = 1

    def extras(self, guess: Array) -> dict[str, float]:
        return {
            "exact_rows": float((nearness(guess, self.truth) > 1 - EXACT).mean()),
            "honest_clients": float(self.honest),
        }


@plays(RemainingClient)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> RowsGame:
    total = truth.experiment.partition.num_clients
    client = victim(truth, adversary)
    if truth.config.training.participation < 1:
        raise CannotAttack("not all clients take part in a round: whose mean it is, is not known")
    chosen = rng.permutation(len(public_nodes(truth)))[:MANY_ROWS]
    own = torch.stack([_first_upload(truth, k) for k in sorted(adversary.clients)])
    dim = public_rows(truth).columns
    turned = torch.stack([rotated(x, rotation(x[:, :dim], own[0][:, :dim])) for x in own])
    rows = _first_upload(truth, client)[:, :dim]
    return RowsGame(
        question=RemainingClient(ids=chosen, client=client, own_uploads=own.numpy()),
        metric="cosine of a row less the mean row, up to a rotation",
        unit="client",
        truth=rows.double().numpy()[chosen],
        outcome=resemblance,
        prior_guess=turned.mean(0)[:, :dim].double().numpy()[chosen],
        honest=total - len(adversary.clients),
    )


def _first_upload(truth: Truth, client: int) -> Tensor:
    """What a client's data alone made of its rows for round 1, before noise and mask."""
    return replayed(truth, [truth.experiment.shards[client]], public_rows(truth))[0]


def resemblance(guess: Array, truth: NDArray[np.float64]) -> Array:
    """The cosine of centred rows, zero where negative. Neither the size of a guess nor the
    direction that all rows share counts: both are alike for everybody's rows."""
    one, other = (x - x.mean(0) for x in (torch.from_numpy(guess), torch.from_numpy(truth)))
    found: Array = cosine_similarity(one @ rotation(one, other), other).clamp(0, 1).numpy()
    return found


def nearness(guess: Array, truth: NDArray[np.float64]) -> Array:
    """max(0, 1 - |g W - x| / |x|), row by row, with the one rotation W that fits best."""
    one, other = torch.from_numpy(guess), torch.from_numpy(truth)
    error = (one @ rotation(one, other) - other).norm(dim=1) / other.norm(dim=1).clamp_min(1e-12)
    found: Array = (1 - error).clamp(0, 1).numpy()
    return found
