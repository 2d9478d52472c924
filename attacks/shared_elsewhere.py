"""Which public nodes share a private neighbour at another client? Means sent to a client tell."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attacks.base import Array, Attack, CannotAttack, Noise, View
from attacks.evidence import lean_evidence, pair_shift
from attacks.questions import SharedElsewhere
from attacks.rows import pair_cosines
from securefg.models.procrustes import find_rotation, rotate_rows
from securefg.protocol.meanings import MeanRows, NodeRows

PUBLIC_ROWS = NodeRows(index="public")
LEAST_ROUND = 2
"""The first round in which a mean comes back."""


def shared_elsewhere(view: View, question: SharedElsewhere, rng: np.random.Generator) -> Array:
    """Score pairs of public nodes by the mean cosine of the others' sums of rows.

    The mean X' over K clients comes back, and K X' less the colluders' own rows is the sum of the
    others' rows. A private node between two public ones pulls the rows of both together there. A
    colluder that no longer has its own rows of a round reads the mean as it is.
    """
    round_cosines = [
        pair_cosines(rows.numpy(), question.ids) for rows in others_sums(view, question)
    ]
    if not round_cosines:
        raise CannotAttack("no mean of rows was sent to the colluders")
    mean: Array = np.mean(round_cosines, axis=0)
    noise = _noise(view)
    return lean_evidence(mean, question.prior, pair_shift(noise, _width(view), len(round_cosines)))


def others_sums(view: View, question: SharedElsewhere) -> list[Tensor]:
    """Return the others' sum of rows, round by round."""
    client, count = min(view.adversary.clients), view.public.num_clients
    own_rows = _own_rows(view, question, client)
    other_sums = []
    for message in view.downloads(MeanRows()):
        meaning = message.meaning
        assert isinstance(meaning, MeanRows)
        value = message.value if meaning.space == "common" else message.row_of_client(client)
        if value is None or message.round < LEAST_ROUND or not bool(value.any()):
            continue
        mean = value.double()[:, : meaning.columns]
        mine = own_rows.get(message.round - 1)
        if mine is not None:
            mine = mine[:, : meaning.columns]
            turned = (
                rotate_rows(mine, find_rotation(mine, mean)) if meaning.space == "common" else mine
            )
            mean = count * mean - turned
        other_sums.append(mean)
    return other_sums


def _own_rows(view: View, question: SharedElsewhere, client: int) -> dict[int, Tensor]:
    """Return the rows of one colluder by round. Before a mask it knows those of round 1."""
    place = sorted(view.adversary.clients).index(client)
    rows_by_round = {1: torch.from_numpy(question.own_uploads[place]).double()}
    for message in view.uploads(PUBLIC_ROWS):
        rows = None if message.masked else message.row_of_client(client)
        if rows is not None:
            rows_by_round[message.round] = rows.double()
    return rows_by_round


def _noise(view: View) -> Noise | None:
    fitting = (n for p, n in view.noise.items() if view.meanings[p].fits(PUBLIC_ROWS))
    noise = next(fitting, None)
    return None if noise is None else noise.of_sum(view.public.num_clients)


def _width(view: View) -> int:
    sent = view.downloads(MeanRows())
    return int(sent[0].value.shape[-1])


SHARED_ELSEWHERE = Attack(
    name="shared_elsewhere",
    summary="which public nodes share a private neighbour at another client, from means sent back",
    source="derived here: K X' - X_i, then the cosine of He et al. 2021, attack 0",
    needs=(PUBLIC_ROWS,),
    hears=(MeanRows(),),
    assumes="the colluders' own rows, and the means that they were sent",
    adversaries=frozenset({"client"}),
    question=SharedElsewhere,
    floor=0.05,
    expected="AUC 0.82 to 0.85 for walks over CiteSeer and one of four clients",
    exposes="that two known persons share a contact whom only another client knows",
    stopped_by="noise on the rows; more clients; masks do not, since the mean is sent to all",
    run=shared_elsewhere,
    rounds=10,
)

ATTACKS = (SHARED_ELSEWHERE,)
