"""What are the samples of those whose terms are in the colluders' sums?

Targets are the honest clients with the most weight in any sum that a colluder with a label was
sent. The colluders know the graph. Prior: for one sample what known clients' samples tell of their
neighbours', for several a random subspace as large.
"""

from __future__ import annotations

import numpy as np
import torch

from attacks.base import CannotAttack, Targets
from audits.games.base import choose
from audits.games.client_samples import SampleGame, nearest, one_each, within
from audits.known_graph import known_edges
from audits.truth import Truth
from securefg.models.graph_operators import operator_matrix
from securefg.protocol.meanings import GraphSums, Jacobian
from securefg.protocol.transcript import Adversary

MANY_TARGETS = 40
LEAST_WEIGHT = 1e-9


def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> SampleGame:
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
    told = np.intersect1d(colluders, public.trainers.numpy())
    if not len(told):
        raise CannotAttack("no colluder has a label: sums of Jacobians go to these alone")
    told_by = [m for m in truth.spoken.sent.values() if m.fits(GraphSums(of=Jacobian()))]
    if not told_by or not isinstance(told_by[0], GraphSums) or told_by[0].by is None:
        raise CannotAttack("clients are sent no sums over the graph")
    weight = operator_matrix(told_by[0].by, torch.from_numpy(edges), public.num_nodes)[told].max(0)
    weight[colluders] = 0
    weight[np.abs(samples).sum((1, 2)) == 0] = 0
    heaviest = np.argsort(-weight, kind="stable")[:MANY_TARGETS]
    wanted = choose(heaviest[weight[heaviest] > LEAST_WEIGHT], MANY_TARGETS, rng)
    if count == 1:
        others = np.setdiff1d(np.flatnonzero(np.abs(samples).sum((1, 2))), colluders)
        prior = one_each(truth, adversary, samples[:, 0], others, wanted, rng)
    else:
        drawn = np.linalg.qr(rng.standard_normal((len(wanted), width, count)))[0]
        prior = drawn.transpose(0, 2, 1)
    return SampleGame(
        targets=Targets(ids=wanted, num_samples=count, edges=edges),
        metric="cosine with the nearest guess" if count == 1 else "share within the guessed span",
        unit="sample",
        truth=samples[wanted],
        outcome=nearest if count == 1 else within,
        prior_guess=prior,
    )
