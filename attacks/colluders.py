"""Attacks by colluding clients, who subtract their own terms from what the server sent them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attacks.base import Array, Attack, CannotAttack, Message, Noise, View
from attacks.questions import ColludedSamples, RemainingClient
from attacks.rows import Rows
from attacks.samples import LARGEST_RANK, binary_samples, samples_of_mixture
from securefg.models.graph_operators import operator_matrix
from securefg.models.procrustes import find_rotation, rotate_rows
from securefg.protocol.meanings import GraphSums, Holdings, Jacobian, MeanRows, NodeRows
from securefg.secagg.exposure import RESIDUAL

ROWS = NodeRows(index="public")
ROUND = 1


def remaining_client(view: View, question: RemainingClient, rng: np.random.Generator) -> Array:
    """Return for every target (a row of the upload) the mean of the honest clients' rows.

    Pairwise alignment returns X'_i = (sum_{j != i} X_j W_ji + X_i) / K, with W_ji from X_j and X_i.
    A holder of X_i and X_j knows both, so K X'_i minus the colluders' terms is the sum of the
    others' rows in i's space. With reference alignment the same holds of the one mean that all are
    sent. K - 1 colluders get the last client's rows, up to a rotation. Fewer colluders get the mean
    of the rest. If rows count by degree, the weights of others are secret, and the sums are not
    known. Noised rows count as far as rows like the colluders' own, which these know without noise,
    scatter more than the noise does. The colluders' own rows, the prior, count for the rest.
    """
    colluder_uploads = _own_uploads(view, question)
    mean, space, columns = _received_mean(view, min(colluder_uploads))
    turned = list(colluder_uploads.values())
    if space == "own":
        first = colluder_uploads[min(colluder_uploads)][:, :columns]
        turned = [rotate_rows(x, find_rotation(x[:, :columns], first)) for x in turned]
    count = view.public.num_clients
    honest = count - len(colluder_uploads)
    known = torch.stack(turned).sum(0)
    rest = ((count * mean - known) / honest)[:, :columns]
    noise = _find_noise(view)
    if noise is not None:
        instead = _known_rows(question)[:, :columns]
        rest = shrink_rows(rest, instead, noise.of_sum(honest))
    found: Array = rest.numpy()[question.ids]
    return found


def shrink_rows(rows: Tensor, instead: Tensor, noise: Noise) -> Tensor:
    """Return (v - sd^2) / (v + sd^2) of the rows, and the known rows, turned, for the rest.

    v is the variance of the known rows. Under noise as large as the rows even their rotation is not
    known.
    """
    like = float(instead.var(0).mean())
    share = max(0.0, like - noise.sd**2) / max(like + noise.sd**2, 1e-300)
    if not share:
        return instead
    return share * rows + (1 - share) * rotate_rows(instead, find_rotation(instead, rows))


def _known_rows(question: RemainingClient) -> Tensor:
    """Return the mean of the colluders' rows before noise."""
    own = torch.from_numpy(question.own_uploads).double()
    return torch.stack([rotate_rows(x, find_rotation(x, own[0])) for x in own]).mean(0)


def _own_uploads(view: View, question: RemainingClient) -> dict[int, Tensor]:
    """Return the colluders' rows as sent or, if they were masked, as they were before."""
    clients = sorted(view.adversary.clients)
    if len(clients) >= view.public.num_clients:
        raise CannotAttack("all clients collude; nobody is left to attack")
    colluder_rows: dict[int, Tensor] = {}
    for message in view.uploads(ROWS):
        if message.round == ROUND and not message.masked:
            colluder_rows |= _by_client(message)
    if not colluder_rows:
        rows = torch.from_numpy(question.own_uploads).double()
        colluder_rows = dict(zip(clients, rows, strict=True))
    if missing := [k for k in clients if k not in colluder_rows]:
        raise CannotAttack(f"client {missing[0]} uploaded no rows in round {ROUND}")
    return colluder_rows


def _find_noise(view: View) -> Noise | None:
    """Return the noise that the policy adds to these rows, whether or not the view shows any."""
    return next((n for p, n in view.noise.items() if view.meanings[p].fits(ROWS)), None)


def _by_client(message: Message) -> dict[int, Tensor]:
    return dict(zip(message.clients.numbers(), message.value.double(), strict=True))


def _received_mean(view: View, client: int) -> tuple[Tensor, str | None, int | None]:
    """Return the mean of round 1 that came back, its space, and its embedding's columns."""
    for message in view.downloads(MeanRows()):
        meaning = message.meaning
        if message.round != ROUND + 1 or not isinstance(meaning, MeanRows):
            continue
        if meaning.space == "common":
            return message.value.double(), meaning.space, meaning.columns
        if client in message.clients.numbers():
            return _by_client(message)[client], meaning.space, meaning.columns
    raise CannotAttack(f"client {client} was sent no mean in round {ROUND + 1}")


def _is_a_plain_mean(view: View) -> str | None:
    if view.uploads(Holdings(degrees=True)):
        return "rows count by degrees that the colluders do not know"
    return None


REMAINING_CLIENT = Attack(
    name="remaining_client",
    summary="the remaining clients' rows, from the mean that colluders were sent",
    source="P3: K X'_i - X_i - sum over colluders of X_j W_ji",
    needs=(ROWS,),
    hears=(MeanRows(),),
    assumes="the colluders' own uploads and what they were sent; all clients take part in round 1",
    adversaries=frozenset({"client"}),
    question=RemainingClient,
    floor=0.02,
    expected="exact for K - 1 colluders, the mean of the rest for fewer",
    exposes="the rows of the one client that does not collude, up to a rotation",
    stopped_by="noise on the rows; more clients; masks do not, since the mean is sent",
    run=remaining_client,
    rounds=2,
    applies_to=_is_a_plain_mean,
)


OWN = Jacobian()
SENT = GraphSums(of=OWN)
CONSTANT = 1e-9


def collusion(view: View, question: ColludedSamples, rng: np.random.Generator) -> Array:
    """Return for every target as many rows as it has samples.

    Client k is sent dC_k = sum_{j != k} A_tilde_kj [M_j | m_j]. Colluders who know the graph know
    A_tilde, subtract their own terms, and have linear equations in the others' [M | m]. Their
    pseudo-inverse gives exactly those j for which e_j lies in the row space, and the nearest
    solution for the rest. From [M_j | m_j] the samples follow as in the attack on single Jacobians.
    A sum of few terms with one binary sample each is taken apart like several samples of one
    client: gates differ from unit to unit, so its rows span the samples. Derived here.
    """
    downloads, sent = view.downloads(SENT), view.uploads(OWN)
    sums, colluder_rows = (
        _first_values(downloads, "sums of Jacobians"),
        _first_values(sent, "the colluders' own Jacobians"),
    )
    meaning = downloads[0].meaning
    assert isinstance(meaning, GraphSums)
    matrix = _sum_matrix(meaning, question.edges, view.public.num_nodes)
    units = meaning.of.units if isinstance(meaning.of, Jacobian) else None
    colluders = np.array(sorted(view.adversary.clients))
    honest = np.setdiff1d(np.arange(len(matrix)), colluders)
    left = sums.values - matrix[np.ix_(sums.ids, colluders)] @ colluder_rows.rows_of(colluders)
    weights = matrix[np.ix_(sums.ids, honest)]
    inverse = np.linalg.pinv(weights, rcond=1e-10)
    places = np.searchsorted(honest, question.ids)
    exposed = np.abs(inverse[places] @ weights - np.eye(len(honest))[places]).max(1) < RESIDUAL
    mixtures = _without_means(inverse[places] @ left, units)
    parted = _part_samples(left, weights, question.num_samples, units)
    target_rows = []
    for place, known, mixture in zip(places, exposed, mixtures, strict=True):
        rows = samples_of_mixture(mixture, question.num_samples)
        if not known and place in parted:
            rows = parted[place][None]
        target_rows.append(rows)
    return np.stack(target_rows)


def _first_values(messages: list[Message], what: str) -> Rows:
    """Return the values of the first round in which the colluders have them, a row per colluder."""
    if not messages:
        raise CannotAttack(
            f"{what} are not in the view: they go to clients with labels alone, and none of these "
            "colludes; or the transcript was thinned"
        )
    same = [m for m in messages if m.round == messages[0].round]
    ids = np.concatenate([m.clients.numbers() for m in same]).astype(np.int64)
    return Rows(ids, torch.cat([m.value.flatten(1) for m in same]).double().numpy())


def _sum_matrix(sums: GraphSums, edges: NDArray[np.int64], num_nodes: int) -> Array:
    """Return what every client's value is multiplied by, in the server's precision."""
    assert sums.by is not None
    found: Array = operator_matrix(sums.by, torch.from_numpy(edges), num_nodes)
    return found.astype(np.float32).astype(np.float64)


def _without_means(rows: Array, units: int | None) -> Array:
    """Return M of every [M | m]."""
    return rows.reshape(len(rows), units or 1, -1)[..., :-1]


def _part_samples(
    left: Array, weights: Array, num_samples: int, units: int | None
) -> dict[int, Array]:
    """Return samples by place among the honest clients, for sums of few one-sample clients."""
    samples_by_place: dict[int, Array] = {}
    if num_samples > 1:
        return samples_by_place
    for mixture, row in zip(_without_means(left, units), weights, strict=True):
        terms = np.flatnonzero(row > CONSTANT)
        if not 1 < len(terms) <= LARGEST_RANK:
            continue
        samples = binary_samples(mixture / row[terms].min())
        if samples is not None:
            samples_by_place |= _name_samples(samples, mixture, row, terms)
    return samples_by_place


def _name_samples(
    samples: Array, mixture: Array, row: Array, terms: NDArray[Any]
) -> dict[int, Array]:
    """Return each term's sample: its weight in the sum tells whose sample it is."""
    from scipy.optimize import nnls  # loaded where it is used

    parts = np.array([nnls(samples.T, unit)[0] for unit in mixture])
    sizes = parts.max(0)
    return {int(j): samples[np.abs(sizes - row[int(j)]).argmin()] for j in terms}


COLLUSION = Attack(
    name="collusion",
    summary="neighbours' samples, from the sums that colluding clients were sent",
    source="G2: pseudo-inverse of the colluders' rows of A_tilde, then G1",
    needs=(OWN,),
    hears=(SENT,),
    assumes="the graph; the colluders' own uploads and the sums they were sent; one has a label",
    adversaries=frozenset({"client"}),
    question=ColludedSamples,
    floor=0.02,
    expected="exact where the sums expose a client, or have few terms of one binary sample each",
    exposes="what a record of another client says, pieced together by its neighbours in the graph",
    stopped_by="noise on the uploads; more neighbours per sum; no Jacobians",
    run=collusion,
    rounds=1,
)


ATTACKS = (REMAINING_CLIENT, COLLUSION)
