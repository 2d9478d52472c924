"""Chosen pseudo labels: is a node's label in a client's training set? Asked one node at a time.

A client gives a pseudo label to a node only where it has no label of its own. The server sends a
client the same model again and again in one round, each time with one pseudo label, and once with
none: an update that does not change by it comes from a client with a label there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from attacks.active.base import ActiveAttack, Request, Told
from attacks.base import Array, CannotAttack, View
from attacks.models import MODEL
from attacks.questions import LabelledNodes
from securefg.protocol.codec import Clients
from securefg.protocol.meanings import PseudoLabels


def lie(
    view: View, question: LabelledNodes, request: Request, rng: np.random.Generator
) -> Sequence[Told]:
    name = request.named(PseudoLabels())
    if name is None or request.round > 1 or question.client is None:
        return ()
    few = Clients.of(sorted({(question.client + i) % view.public.num_clients for i in range(3)}))
    nobody = torch.full((view.public.num_nodes,), -1, dtype=torch.int16)
    asked = [Told({name: nobody}, few)]
    for node in question.ids.tolist():
        labels = nobody.clone()
        labels[node] = 0
        asked.append(Told({name: labels}, few))
    return [*asked, Told()]


def run(view: View, question: LabelledNodes, rng: np.random.Generator) -> Array:
    """How little the update changes by a pseudo label for the target."""
    first = [m for m in view.readable(MODEL) if m.round == 1]
    own = sorted((m for m in first if m.of(question.client) is not None), key=lambda m: m.step)
    rows = [m.of(question.client) for m in own]
    if len(rows) < len(question.ids) + 1:
        raise CannotAttack(
            f"client {question.client} answered {len(rows)} requests of one round; "
            f"{len(question.ids) + 1} are needed"
        )
    values = np.stack([row.flatten().double().numpy() for row in rows if row is not None])
    found: Array = -np.linalg.norm(values[1 : len(question.ids) + 1] - values[0], axis=1)
    return found + 1e-12 * rng.normal(size=len(found))


ATTACK = ActiveAttack(
    name="probed_labels",
    summary="whether a client has a node's label, from what a pseudo label for it changes",
    source="the definition of pseudo labels: a client's own label comes first",
    needs=(MODEL,),
    hears=(PseudoLabels(),),
    assumes="a server that asks a client many times in one round, with pseudo labels it chose",
    adversaries=frozenset({"server"}),
    question=LabelledNodes,
    floor=0.3,
    expected="exact: the update of a labelled node does not change by a single bit",
    exposes="that a client holds the label of this person: that a clinic has diagnosed it",
    stopped_by="masks, since clients answer a round once and in no small cohort; noise; a budget",
    noticed="many requests of one round; every one is in the client's ledger",
    lie=lie,
    run=run,
    rounds=1,
)
