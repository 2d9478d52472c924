"""P3: the remaining clients' rows, from the mean that colluding clients were sent.

Pairwise alignment returns X'_i = (sum_{j != i} X_j W_ji + X_i) / K, with W_ji from X_j and X_i: who
holds X_i and X_j knows both, so K X'_i minus the colluders' terms is the sum of the others' rows in
i's space. With reference alignment the same holds of the one mean that all are sent. K - 1
colluders get the last client's rows, up to a rotation; fewer get the mean of the rest. Rows may
count by degree: then the weights of others are theirs, and the sums are not known. Noised rows
count as far as rows like the colluders' own, which these know without noise, scatter more than the
noise does; the colluders' own rows, the prior, count for the rest.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from attacks.base import Array, Attack, CannotAttack, Message, Noise, View
from attacks.questions import RemainingClient
from securefg.models.procrustes import rotated, rotation
from securefg.protocol.meanings import Holdings, MeanRows, NodeRows

ROWS = NodeRows(index="public")
ROUND = 1


def run(view: View, question: RemainingClient, rng: np.random.Generator) -> Array:
    """For every target (a row of the upload) the mean of the honest clients' rows."""
    own = _own_uploads(view, question)
    mean, space, columns = _received(view, min(own))
    turned = list(own.values())
    if space == "own":
        first = own[min(own)][:, :columns]
        turned = [rotated(x, rotation(x[:, :columns], first)) for x in turned]
    count = view.public.num_clients
    honest = count - len(own)
    known = torch.stack(turned).sum(0)
    rest = ((count * mean - known) / honest)[:, :columns]
    noise = _noise(view)
    if noise is not None:
        instead = _known_rows(question, turned)[:, :columns]
        rest = shrunk(rest, instead, noise.of_sum(honest))
    found: Array = rest.numpy()[question.ids]
    return found


def shrunk(rows: Tensor, instead: Tensor, noise: Noise) -> Tensor:
    """(v - sd^2) / (v + sd^2) of the rows, where v is the variance of others like them, and these,
    turned, for the rest. Under noise as large as the rows even their rotation is not known."""
    like = float(instead.var(0).mean())
    share = max(0.0, like - noise.sd**2) / max(like + noise.sd**2, 1e-300)
    if not share:
        return instead
    return share * rows + (1 - share) * rotated(instead, rotation(instead, rows))


def _known_rows(question: RemainingClient, sent: list[Tensor]) -> Tensor:
    """The mean of the colluders' rows, before noise where they know them so."""
    if question.own_uploads is None:
        return torch.stack(sent).mean(0)
    own = torch.from_numpy(question.own_uploads).double()
    return torch.stack([rotated(x, rotation(x, own[0])) for x in own]).mean(0)


def _own_uploads(view: View, question: RemainingClient) -> dict[int, Tensor]:
    """As they were sent; where they were masked, as they were before."""
    clients = sorted(view.adversary.clients)
    if len(clients) >= view.public.num_clients:
        raise CannotAttack("all clients collude; nobody is left to attack")
    found: dict[int, Tensor] = {}
    for message in view.uploads(ROWS):
        if message.round == ROUND and not message.masked:
            found |= _by_client(message)
    if not found and question.own_uploads is not None:
        rows = torch.from_numpy(question.own_uploads).double()
        found = dict(zip(clients, rows, strict=True))
    if missing := [k for k in clients if k not in found]:
        raise CannotAttack(f"client {missing[0]} uploaded no rows in round {ROUND}")
    return found


def _noise(view: View) -> Noise | None:
    """What the policy adds to these rows, whether or not the view shows any."""
    return next((n for p, n in view.noise.items() if view.meanings[p].fits(ROWS)), None)


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
    question=RemainingClient,
    floor=0.02,
    expected="exact for K - 1 colluders, the mean of the rest for fewer",
    exposes="the rows of the one client that does not collude",
    stopped_by="noise on the rows; more clients; masks do not, since the mean is sent",
    run=run,
    rounds=2,
    applies_to=_is_a_plain_mean,
)
