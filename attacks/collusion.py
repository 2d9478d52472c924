"""G2: colluding clients solve the sums over the graph that they were sent for others' samples.

Client k is sent dC_k = sum_{j != k} A_tilde_kj [M_j | m_j]. Colluders who know the graph know
A_tilde, subtract their own terms, and have linear equations in the others' [M | m]; their
pseudo-inverse gives exactly those j for which e_j lies in the row space (G3), and the nearest thing
for the rest. From [M_j | m_j] the samples follow as in G1. Where a sum has few terms of one binary
sample each, the sum itself is taken apart as G1 takes several samples apart: gates differ from unit
to unit, so its rows span the samples. Derived here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attacks.base import Array, Attack, CannotAttack, Message, Targets, View
from attacks.jacobian_samples import LARGEST_RANK, binary_samples, samples_of
from attacks.uploaded_rows import Rows
from securefg.models.graph_operators import operator_matrix
from securefg.protocol.meanings import GraphSums, Jacobian
from securefg.secagg.exposure import RESIDUAL

OWN = Jacobian()
SENT = GraphSums(of=OWN)
CONSTANT = 1e-9


def run(view: View, targets: Targets, rng: np.random.Generator) -> Array:
    """For every target as many rows as it has samples."""
    if targets.edges is None or targets.num_samples is None:
        raise CannotAttack("the graph, or the number of samples per client, is not known")
    told, sent = view.downloads(SENT), view.uploads(OWN)
    sums, own = _first(told, "sums of Jacobians"), _first(sent, "the colluders' own Jacobians")
    meaning = told[0].meaning
    assert isinstance(meaning, GraphSums)
    matrix = _matrix(meaning, targets.edges, view.public.num_nodes)
    units = meaning.of.units if isinstance(meaning.of, Jacobian) else None
    colluders = np.array(sorted(view.adversary.clients))
    honest = np.setdiff1d(np.arange(len(matrix)), colluders)
    left = sums.values - matrix[np.ix_(sums.ids, colluders)] @ own.of(colluders)
    weights = matrix[np.ix_(sums.ids, honest)]
    inverse = np.linalg.pinv(weights, rcond=1e-10)
    places = np.searchsorted(honest, targets.ids)
    exposed = np.abs(inverse[places] @ weights - np.eye(len(honest))[places]).max(1) < RESIDUAL
    mixtures = _without_means(inverse[places] @ left, units)
    parted = _parted(left, weights, targets.num_samples, units)
    found = []
    for place, known, mixture in zip(places, exposed, mixtures, strict=True):
        rows = samples_of(mixture, targets.num_samples)
        if not known and place in parted:
            rows = parted[place][None]
        found.append(rows)
    return np.stack(found)


def _first(messages: list[Message], what: str) -> Rows:
    """Of the first round in which the colluders have it, a row per colluder."""
    if not messages:
        raise CannotAttack(
            f"{what} are not in the view: they go to clients with labels alone, and none of these "
            "colludes; or the transcript was thinned"
        )
    same = [m for m in messages if m.round == messages[0].round]
    ids = np.concatenate([m.clients.numbers() for m in same]).astype(np.int64)
    return Rows(ids, torch.cat([m.value.flatten(1) for m in same]).double().numpy())


def _matrix(sums: GraphSums, edges: NDArray[np.int64], num_nodes: int) -> Array:
    """What every client's value is multiplied by, in the precision in which the server has it."""
    assert sums.by is not None
    found: Array = operator_matrix(sums.by, torch.from_numpy(edges), num_nodes)
    return found.astype(np.float32).astype(np.float64)


def _without_means(rows: Array, units: int | None) -> Array:
    """M of every [M | m]."""
    return rows.reshape(len(rows), units or 1, -1)[..., :-1]


def _parted(left: Array, weights: Array, num_samples: int, units: int | None) -> dict[int, Array]:
    """By place among the honest: samples of sums that few clients with one sample each are in."""
    found: dict[int, Array] = {}
    if num_samples > 1:
        return found
    for mixture, row in zip(_without_means(left, units), weights, strict=True):
        terms = np.flatnonzero(row > CONSTANT)
        if not 1 < len(terms) <= LARGEST_RANK:
            continue
        samples = binary_samples(mixture / row[terms].min())
        if samples is not None:
            found |= _named(samples, mixture, row, terms)
    return found


def _named(samples: Array, mixture: Array, row: Array, terms: NDArray[Any]) -> dict[int, Array]:
    """Whose sample is whose: by the weight with which it enters the sum."""
    from scipy.optimize import nnls  # loaded where it is used

    parts = np.array([nnls(samples.T, unit)[0] for unit in mixture])
    sizes = parts.max(0)
    return {int(j): samples[np.abs(sizes - row[int(j)]).argmin()] for j in terms}


ATTACK = Attack(
    name="collusion",
    summary="neighbours' samples, from the sums that colluding clients were sent",
    source="G2: pseudo-inverse of the colluders' rows of A_tilde, then G1",
    needs=(OWN,),
    hears=(SENT,),
    assumes="the graph; the colluders' own uploads and the sums they were sent; one has a label",
    adversaries=frozenset({"client"}),
    game="colluded_samples",
    floor=0.02,
    expected="exact where the sums expose a client, or have few terms of one binary sample each",
    exposes="the record of somebody else's client, pieced together by its neighbours in the graph",
    stopped_by="noise on the uploads; more neighbours per sum; no Jacobians",
    run=run,
    rounds=1,
)
