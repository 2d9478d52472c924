"""Does a public node have an edge at a client? Its row tells by staying where it was sent."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attacks.base import Array, Attack, CannotAttack, View
from attacks.evidence import largest_shift, lean_evidence
from attacks.questions import EdgedNodes
from attacks.rows import client_rounds, noise_of
from securefg.protocol.meanings import MeanRows, NodeRows

WALKED_ROWS = NodeRows("walks", "public")


def unmoved_rows(view: View, question: EdgedNodes, rng: np.random.Generator) -> Array:
    """Score public nodes by how far the client's rows are from the rows that it was sent.

    A client writes the rows that come back over its own and goes on walking. No walk visits a node
    without an edge but those that start there, and skip-gram learns nothing from these. Its row
    comes back as it was sent. Under masks the mean of all clients is compared, which moves if the
    node has an edge anywhere.
    """
    uploads = client_rounds(view, question.client, WALKED_ROWS)
    sent = _sent_rows(view, question.client)
    moved = [
        (rows[:, : sent[number].shape[1]].double() - sent[number]).square().sum(1)
        for number, rows in sorted(uploads.items())
        if number in sent
    ]
    if not moved:
        raise CannotAttack("no round has both rows that were sent and rows that came back")
    noise = noise_of(view, WALKED_ROWS)
    total = torch.stack(moved).mean(0)[torch.from_numpy(question.ids)].numpy()
    return lean_evidence(total, question.prior, largest_shift(noise, 1.0, len(moved)))


def _sent_rows(view: View, client: int) -> dict[int, Tensor]:
    """Return the rows that a client was sent, by round: its own, or the mean that all share."""
    rows_by_round = {}
    for message in view.downloads(MeanRows()):
        meaning = message.meaning
        is_common = isinstance(meaning, MeanRows) and meaning.space == "common"
        value = message.value if is_common else message.row_of_client(client)
        if value is not None and bool(value.any()):
            rows_by_round[message.round] = value.double()
    return rows_by_round


UNMOVED_ROWS = Attack(
    name="unmoved_rows",
    summary="whether a public node has an edge at a client, from rows that come back unchanged",
    source="derived here: skip-gram moves the rows of nodes that walks visit, and no others",
    needs=(WALKED_ROWS,),
    hears=(MeanRows(),),
    assumes="one client's uploaded rows, and the rows that it was sent before",
    adversaries=frozenset({"server"}),
    question=EdgedNodes,
    floor=0.3,
    expected="exact, where the server returns to each client a mean of its own",
    exposes="that a known person has any contact among the people of one client",
    stopped_by="noise on the rows; masks in part, since the mean tells whether anybody has an edge",
    run=unmoved_rows,
    rounds=10,
)

ATTACKS = (UNMOVED_ROWS,)
