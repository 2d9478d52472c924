"""A client left out of one of two like rounds: the difference of two masked sums is its upload.

Clients answer a round once, so that no round can be summed over two cohorts. But a server may send
the same model in two rounds, and leave one client out of the second, as if it had dropped out. What
is left when the sums are subtracted is that client's rows, and what dropout changed in the others'.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from attacks.active.base import ActiveAttack, Request, Told
from attacks.base import Array, CannotAttack, View
from attacks.questions import HeldNodes
from attacks.rows import client_rounds
from securefg.protocol.codec import Clients
from securefg.protocol.meanings import AddedGraph, NodeRows, Predictions, PseudoLabels, Weights

ROWS = (NodeRows(index="nodes"), Predictions("nodes"))
LARGE = 1.0
"""Of the weights sent: what local training, with its dropout, adds to rows is small beside it."""


def lie(
    view: View, question: HeldNodes, request: Request, rng: np.random.Generator
) -> Sequence[Told]:
    """The same weights in both rounds, drawn anew, and nothing else that hangs on earlier ones."""
    name = request.named(Weights(change=False))
    if name is None or question.client is None or not any(map(request.asks_for, ROWS)):
        return ()
    sent = request.values[name]
    assert isinstance(sent, Tensor)
    drawn = np.random.default_rng(0).normal(size=tuple(sent.shape)) * LARGE
    later = (PseudoLabels(), AddedGraph())
    silent = {n: None for n, m in request.meanings.items() if any(m.fits(x) for x in later)}
    everybody = range(view.public.num_clients)
    others = Clients.of([k for k in everybody if k != question.client])
    left_out = others if request.round > 1 else None
    return [Told({**silent, name: torch.from_numpy(drawn).to(sent)}, left_out)]


def run(view: View, question: HeldNodes, rng: np.random.Generator) -> Array:
    """How much of a row there is about every target."""
    rows = _of_the_victim(view, question.client)
    found: Array = rows[torch.from_numpy(question.ids)].double().norm(dim=1).numpy()
    return found + 1e-12 * rng.normal(size=len(found))


def _of_the_victim(view: View, client: int) -> Tensor:
    """Its own rows where they can be read, else the difference of the first two sums."""
    for need in ROWS:
        if any(not message.masked for message in view.uploads(need)):
            return client_rounds(view, client, need)[1]
        sums = {message.round: message.value for message in view.sums(need)}
        if len(sums) > 1:
            first, second = sorted(sums)[:2]
            return sums[first] - sums[second]
    raise CannotAttack("no two sums of rows, and no rows of one client")


ATTACK = ActiveAttack(
    name="silenced_client",
    summary="which nodes a client holds, from two sums of which one is without it",
    source="the difference of sums over all and over all but one",
    needs=(ROWS,),
    hears=(Weights(change=False),),
    assumes="a server that sends one model in two rounds and leaves a client out of the second",
    adversaries=frozenset({"server"}),
    question=HeldNodes,
    floor=0.2,
    expected="exact without masks; under masks AUC 0.9 and more",
    exposes="that a person is a customer of this client, with all that its rows say",
    stopped_by="noise on the rows; a cohort that must be whole (no drop-outs); masks alone do not",
    noticed="the same model twice; to the client that is left out, a round without a request",
    lie=lie,
    run=run,
    rounds=2,
)
