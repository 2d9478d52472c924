"""Games about what colluding clients learn of the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cosine_similarity

from attacks.base import Array, CannotAttack
from attacks.questions import ColludedSamples, RemainingClient
from audits.games.base import OutcomeGame, choose_targets, choose_victim, plays
from audits.games.links import public_rows
from audits.games.samples import SampleGame, nearest_cosine, one_each, share_within
from audits.known_graph import known_edges
from audits.replay import public_nodes, replay_field
from audits.truth import Truth
from securefg.models.graph_operators import operator_matrix
from securefg.models.procrustes import find_rotation, rotate_rows
from securefg.protocol.meanings import GraphSums, Jacobian
from securefg.protocol.transcript import Adversary

MANY_ROWS = 1000
EXACT = 1e-3


@dataclass(frozen=True)
class RowsGame(OutcomeGame):
    """A game that also tells the share of rows known but for rounding, and the number of honest
    clients."""

    honest: int = 1

    def extras(self, guess: Array) -> dict[str, float]:
        """Return the share of rows that are known but for rounding, and the number of honest
        clients."""
        return {
            "exact_rows": float((row_nearness(guess, self.truth) > 1 - EXACT).mean()),
            "honest_clients": float(self.honest),
        }


@plays(RemainingClient)
def remaining_client(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> RowsGame:
    """Ask for an honest client's rows of the public nodes, up to a rotation.

    The truth is what the client's data make of its rows in round 1, before noise and mask. The
    prior is the mean of the colluders' own rows, which resemble the honest client's, since all
    embed the same nodes. A guess is rotated onto the truth before it is scored, and so is the
    prior.
    """
    total = truth.experiment.partition.num_clients
    client = choose_victim(truth, adversary)
    if truth.config.training.participation < 1:
        raise CannotAttack("not all clients take part in a round: whose mean it is, is not known")
    chosen = rng.permutation(len(public_nodes(truth)))[:MANY_ROWS]
    colluder_rows = torch.stack([_first_upload(truth, k) for k in sorted(adversary.clients)])
    dim = public_rows(truth).columns
    turned = torch.stack(
        [
            rotate_rows(x, find_rotation(x[:, :dim], colluder_rows[0][:, :dim]))
            for x in colluder_rows
        ]
    )
    rows = _first_upload(truth, client)[:, :dim]
    return RowsGame(
        question=RemainingClient(ids=chosen, client=client, own_uploads=colluder_rows.numpy()),
        metric="cosine of a row less the mean row, up to a rotation",
        unit="client",
        truth=rows.double().numpy()[chosen],
        outcome=row_resemblance,
        prior_guess=turned.mean(0)[:, :dim].double().numpy()[chosen],
        honest=total - len(adversary.clients),
    )


def _first_upload(truth: Truth, client: int) -> Tensor:
    """Return what a client's data alone made of its rows for round 1, before noise and mask."""
    return replay_field(truth, [truth.experiment.shards[client]], public_rows(truth))[0]


def row_resemblance(guess: Array, truth: NDArray[np.float64]) -> Array:
    """Return the cosine of centred rows, zero if negative.

    Neither the size of a guess nor the direction that all rows share counts: both are alike for
    everybody's rows.
    """
    one, other = (x - x.mean(0) for x in (torch.from_numpy(guess), torch.from_numpy(truth)))
    found: Array = cosine_similarity(one @ find_rotation(one, other), other).clamp(0, 1).numpy()
    return found


def row_nearness(guess: Array, truth: NDArray[np.float64]) -> Array:
    """Return max(0, 1 - |g W - x| / |x|) by row, with the one rotation W that fits best."""
    one, other = torch.from_numpy(guess), torch.from_numpy(truth)
    error = (one @ find_rotation(one, other) - other).norm(dim=1) / other.norm(dim=1).clamp_min(
        1e-12
    )
    found: Array = (1 - error).clamp(0, 1).numpy()
    return found


MANY_TARGETS = 40
LEAST_WEIGHT = 1e-9


@plays(ColludedSamples)
def colluded_samples(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> SampleGame:
    """Ask for the samples of clients whose terms are in the colluders' sums.

    Targets are the honest clients with the most weight in any sum that a colluder with a label was
    sent. The colluders know the graph. Prior: for one sample what known clients' samples tell of
    their neighbours', for several a random subspace as large.
    """
    public = truth.experiment.public
    features = truth.features().astype(np.float64)
    samples = features if features.ndim == 3 else features[:, None]
    count, width = samples.shape[1:]
    if count >= width:
        raise CannotAttack(f"{count} samples of {width} numbers span everything: nothing to find")
    colluders = np.array(sorted(adversary.clients))
    # The graph of the whole: clients of one node each hold no edge between them.
    edges = known_edges(truth, adversary)
    if public.trainers is None or edges is None:
        raise CannotAttack("nobody knows who trains and what the graph of the whole is")
    labelled_colluders = np.intersect1d(colluders, public.trainers.numpy())
    if not len(labelled_colluders):
        raise CannotAttack("no colluder has a label: sums of Jacobians go to these alone")
    told_by = [m for m in truth.spoken.sent.values() if m.fits(GraphSums(of=Jacobian()))]
    if not told_by or not isinstance(told_by[0], GraphSums) or told_by[0].by is None:
        raise CannotAttack("clients are sent no sums over the graph")
    weight = operator_matrix(told_by[0].by, torch.from_numpy(edges), public.num_nodes)[
        labelled_colluders
    ].max(0)
    weight[colluders] = 0
    weight[np.abs(samples).sum((1, 2)) == 0] = 0
    heaviest = np.argsort(-weight, kind="stable")[:MANY_TARGETS]
    wanted = choose_targets(heaviest[weight[heaviest] > LEAST_WEIGHT], MANY_TARGETS, rng)
    if count == 1:
        others = np.setdiff1d(np.flatnonzero(np.abs(samples).sum((1, 2))), colluders)
        prior = one_each(truth, adversary, samples[:, 0], others, wanted, rng)
    else:
        drawn = np.linalg.qr(rng.standard_normal((len(wanted), width, count)))[0]
        prior = drawn.transpose(0, 2, 1)
    return SampleGame(
        question=ColludedSamples(ids=wanted, num_samples=count, edges=edges),
        metric="cosine with the nearest guess" if count == 1 else "share within the guessed span",
        unit="sample",
        truth=samples[wanted],
        outcome=nearest_cosine if count == 1 else share_within,
        prior_guess=prior,
    )
