"""P3: the remaining clients' rows, from the mean that colluding clients were sent.

Pairwise alignment returns X'_i = (sum_{j != i} X_j W_ji + X_i) / K, with W_ji from X_j and X_i: who
holds X_i and X_j knows both, so K X'_i minus the colluders' terms is the sum of the others' rows in
i's space. With reference alignment the same holds of the one mean that all are sent. K - 1
colluders get the last client's rows, up to a rotation; fewer get the mean of the rest. Rows may
count by degree: then the weights of others are theirs, and the sums are not known.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attacks.base import Array, Attack, CannotAttack, Message, Targets, View
from securefg.models.procrustes import rotated, rotation
from securefg.protocol.meanings import Holdings, MeanRows, NodeRows

ROWS = NodeRows(index="public")
ROUND = 1


def run(view: View, targets: Targets, rng: np.random.Generator) -> Array:
    """For every target (a row of the upload) the mean of the honest clients' rows."""
    own = _own_uploads(view, targets)
    mean, space, columns = _received(view, min(own))
    turned = list(own.values())
    if space == "own":
        first = own[min(own)][:, :columns]
        turned = [rotated(x, rotation(x[:, :columns], first)) for x in turned]
    count = view.public.num_clients
    rest = (count * mean - sum(turned)) / (count - len(own))
    found: Array = rest[:, :columns].numpy()[targets.ids]
    return found


def _own_uploads(view: View, targets: Targets) -> dict[int, Tensor]:
    """As they were sent; where they were masked, as they were before."""
    clients = sorted(view.adversary.clients)
    if len(clients) >= view.public.num_clients:
        raise CannotAttack("all clients collude; nobody is left to attack")
    found: dict[int, Tensor] = {}
    for message in view.uploads(ROWS):
        if message.round == ROUND and not message.masked:
            found |= _by_client(message)
    if not found and targets.own_uploads is not None:
        rows = torch.from_numpy(targets.own_uploads).double()
        found = dict(zip(clients, rows, strict=True))
    if missing := [k for k in clients if k not in found]:
        raise CannotAttack(f"client {missing[0]} uploaded no rows in round {ROUND}")
    return found


def _by_client(message: Message) -> dict[int, Tensor]:
    return dict(zip(message.clients.numbers(), message.value.double(), strict=True))


def _received(view: View, client: int) -> tuple[Tensor, str | None, int | None]:
    """The mean of round 1 that came back, whose space it is in, and its embedding's columns."""
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


ATTACK = Attack(
    name="remaining_client",
    summary="the remaining clients' rows, from the mean that colluders were sent",
    source="P3: K X'_i - X_i - sum over colluders of X_j W_ji",
    needs=(ROWS,),
    hears=(MeanRows(),),
    assumes="the colluders' own uploads and what they were sent; all clients take part in round 1",
    adversaries=frozenset({"client"}),
    game="remaining_client",
    floor=0.02,
    expected="exact for K - 1 colluders, the mean of the rest for fewer",
    exposes="the rows of the one client that does not collude",
    stopped_by="noise on the rows; more clients; masks do not, since the mean is sent",
    run=run,
    rounds=2,
    applies_to=_is_a_plain_mean,
)
