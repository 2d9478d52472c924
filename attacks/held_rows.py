"""Which nodes a client holds, from which of its uploaded rows are anything but zero.

A client that uploads a row per node of a common index has rows of zeros where it holds nothing, or
says outright what it holds. Under noise every row is something, and those that are more are added
up over rounds; of masked rows the sum is seen, which tells how many hold a node.
"""

from __future__ import annotations

import numpy as np
import torch

from attacks.base import Array, Attack, CannotAttack, View
from attacks.leaning import largest_shift, leaning
from attacks.questions import HeldNodes
from attacks.rows import client_rounds, noise_of
from securefg.protocol.meanings import Holdings, NodeRows, Predictions

ROWS = (Holdings(degrees=False), NodeRows(index="nodes"), Predictions("nodes"))


def run(view: View, question: HeldNodes, rng: np.random.Generator) -> Array:
    rounds, noise = client_rounds(view, question.client, ROWS), noise_of(view, ROWS)
    rows = torch.stack([value.double().flatten(1) for value in rounds.values()])
    if rows.shape[1] != view.public.num_nodes:
        raise CannotAttack(f"{rows.shape[1]} rows, not one for each of {view.public.num_nodes}")
    sizes = rows.square().sum(-1)
    own = (sizes > 0).double().amax(0) if noise is None else sizes.mean(0)
    evidence: Array = own[torch.from_numpy(question.ids)].numpy()
    return leaning(evidence, question.prior, largest_shift(noise, 1.0, len(rounds)))


ATTACK = Attack(
    name="held_rows",
    summary="which nodes a client holds, from which of its uploaded rows are not zero",
    source="the definition: rows are zero where a client holds nothing",
    needs=(ROWS,),
    assumes="one client's uploads of a row per node of a common index",
    adversaries=frozenset({"server"}),
    question=HeldNodes,
    floor=0.1,
    expected="exact",
    exposes="that a person is a customer of this client",
    stopped_by="masks, since then the sum tells only how many hold a node; noise on all rows",
    run=run,
    rounds=5,
)
