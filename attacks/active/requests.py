"""Servers that ask more often, or ask other clients, than the protocol says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from attacks.active.base import ActiveAttack, Request, Told
from attacks.base import Array, CannotAttack, View
from attacks.latents import LATENT, first_weights, needs_shared_start
from attacks.models import MODEL
from attacks.questions import HeldNodes, Identify, LabelledNodes
from attacks.rows import client_rounds
from securefg.protocol.codec import Clients
from securefg.protocol.meanings import AddedGraph, NodeRows, Predictions, PseudoLabels, Weights


def ask_by_pseudo_label(
    view: View, question: LabelledNodes, request: Request, rng: np.random.Generator
) -> Sequence[Told]:
    """Send a few clients the same model again and again, each time with one pseudo label.

    A client gives a pseudo label to a node only if it has no label of its own. One request has no
    pseudo label.
    """
    name = request.field_with_meaning(PseudoLabels())
    if name is None or request.round > 1:
        return ()
    few = Clients.of(sorted({(question.client + i) % view.public.num_clients for i in range(3)}))
    nobody = torch.full((view.public.num_nodes,), -1, dtype=torch.int16)
    asked = [Told({name: nobody}, few)]
    for node in question.ids.tolist():
        labels = nobody.clone()
        labels[node] = 0
        asked.append(Told({name: labels}, few))
    return [*asked, Told()]


def probed_labels(view: View, question: LabelledNodes, rng: np.random.Generator) -> Array:
    """Return how little the update changes by a pseudo label for the target.

    An update that does not change comes from a client with a label there.
    """
    first = [m for m in view.readable(MODEL) if m.round == 1]
    own = sorted(
        (m for m in first if m.row_of_client(question.client) is not None), key=lambda m: m.step
    )
    rows = [m.row_of_client(question.client) for m in own]
    if len(rows) < len(question.ids) + 1:
        raise CannotAttack(
            f"client {question.client} answered {len(rows)} requests of one round; "
            f"{len(question.ids) + 1} are needed"
        )
    values = np.stack([row.flatten().double().numpy() for row in rows if row is not None])
    found: Array = -np.linalg.norm(values[1 : len(question.ids) + 1] - values[0], axis=1)
    return found + 1e-12 * rng.normal(size=len(found))


PROBED_LABELS = ActiveAttack(
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
    exposes="that a client holds the label of this person",
    stopped_by="masks, since clients answer a round once and in no small cohort; noise; a budget",
    noticed="many requests of one round; every one is in the client's ledger",
    lie=ask_by_pseudo_label,
    run=probed_labels,
    rounds=1,
)


TIMES = 200


def ask_again(
    view: View, question: Identify, request: Request, rng: np.random.Generator
) -> Sequence[Told]:
    """Ask round 1 again and again, so that fresh noise averages out."""
    return [Told()] * TIMES if request.asks_for(LATENT) and request.round == 1 else ()


def repeated_requests(view: View, question: Identify, rng: np.random.Generator) -> Array:
    """Return the candidate whose latent points most like the mean of all latents of the user.

    Clipping shortens a latent and does not turn it.
    """
    from scipy.spatial.distance import cdist  # loaded where it is used

    total: dict[int, Array] = {}
    for message in view.readable(LATENT):
        if message.round == 1:
            rows = message.value.flatten(1).double().numpy()
            for client, row in zip(message.clients.numbers(), rows, strict=True):
                total[client] = total.get(client, 0.0) + row
    if missing := [k for k in question.ids.tolist() if k not in total]:
        raise CannotAttack(f"client {missing[0]} uploaded nothing in round 1")
    sent = np.stack([total[k] for k in question.ids.tolist()])
    made = question.candidates @ first_weights(view).double().numpy()
    distance = cdist(_unit_rows(sent), _unit_rows(made))
    found: Array = distance.argmin(1).astype(np.float64)
    return found


def _unit_rows(rows: Array) -> Array:
    found: Array = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return found


REPEATED_REQUESTS = ActiveAttack(
    name="repeated_requests",
    summary=f"which candidate row is a user's, from {TIMES} answers to one request",
    source="averaging n answers divides the noise by the root of n",
    needs=(LATENT,),
    assumes=f"a server that asks a round {TIMES} times; the shared W_0; a list of candidates",
    adversaries=frozenset({"server"}),
    question=Identify,
    floor=0.1,
    expected="under noise, what one answer gives at a noise fourteen times smaller",
    exposes="which person of a known list a pseudonymous user is, although all answers had noise",
    stopped_by="a privacy budget that clients hold (privacy.budget, a site's budgets)",
    noticed="many requests of one round; every one is in the client's ledger with its epsilon",
    lie=ask_again,
    run=repeated_requests,
    rounds=1,
    applies_to=needs_shared_start,
)


ROWS = (NodeRows(index="nodes"), Predictions("nodes"))
LARGE = 1.0
"""Of the weights sent: what local training, with its dropout, adds to rows is small beside it."""


def leave_client_out(
    view: View, question: HeldNodes, request: Request, rng: np.random.Generator
) -> Sequence[Told]:
    """Send the same weights in two rounds, the second without one client, as if it had dropped out.

    Clients answer a round once, so that no round can be summed over two cohorts. The weights are
    drawn anew, and everything that depends on earlier rounds is left out.
    """
    name = request.field_with_meaning(Weights(change=False))
    if name is None or not any(map(request.asks_for, ROWS)):
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


def silenced_client(view: View, question: HeldNodes, rng: np.random.Generator) -> Array:
    """Score nodes by the size of the victim's row.

    The difference of the two sums is the victim's rows, and what dropout changed in the others'.
    """
    rows = _of_the_victim(view, question.client)
    found: Array = rows[torch.from_numpy(question.ids)].double().norm(dim=1).numpy()
    return found + 1e-12 * rng.normal(size=len(found))


def _of_the_victim(view: View, client: int) -> Tensor:
    """Return its own rows if they can be read, else the difference of the first two sums."""
    for need in ROWS:
        if any(not message.masked for message in view.uploads(need)):
            return client_rounds(view, client, need)[1]
        sums = {message.round: message.value for message in view.sums(need)}
        if len(sums) > 1:
            first, second = sorted(sums)[:2]
            return sums[first] - sums[second]
    raise CannotAttack("no two sums of rows, and no rows of one client")


SILENCED_CLIENT = ActiveAttack(
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
    exposes="that a client holds a person's record",
    stopped_by="noise on the rows; a cohort that must be whole (no drop-outs); masks alone do not",
    noticed="the same model twice; to the client that is left out, a round without a request",
    lie=leave_client_out,
    run=silenced_client,
    rounds=2,
)


ATTACKS = (PROBED_LABELS, REPEATED_REQUESTS, SILENCED_CLIENT)
