"""Links from uploaded rows by a classifier that an accomplice's graph taught.

He et al. ("Stealing Links from Graph Neural Networks", USENIX Security 2021) train a classifier of
pairs on a graph that the adversary knows. Here one client colludes with the server: its uploads of
this very run, beside its edges, show what rows of linked nodes look like. The classifier sees the
last rows, all rounds' rows and these whitened (see `whitened_links`), and the released answers.
"""

from __future__ import annotations

import numpy as np

from attacks.answered_links import described_answers, likenesses
from attacks.base import Array, Attack, CannotAttack, View
from attacks.pair_classifier import Pairs, described, learnt, shadow_links
from attacks.questions import StolenLinks
from attacks.rows import client_rounds, noise_of
from attacks.whitened_links import whiten
from securefg.protocol.meanings import NodeRows, Predictions

ROWS = (NodeRows(index="nodes"), Predictions("nodes"))


def run(view: View, question: StolenLinks, rng: np.random.Generator) -> Array:
    shadow_links(question)
    if question.shadow_client is None or question.client is None:
        raise CannotAttack("no client colludes with the server")
    shadow = _described(view, question.shadow_client, question.shadow_pairs)
    wanted = _described(view, question.client, question.ids)
    known = [] if view.answers is None else likenesses(view.answers, question.shadow_pairs)
    return learnt(question, shadow, wanted, known)


def _described(view: View, client: int, pairs: Pairs) -> Array:
    rounds, noise = client_rounds(view, client, ROWS), noise_of(view, ROWS)
    stacked = np.concatenate([rows.double().numpy() for rows in rounds.values()], 1)
    held = np.abs(stacked).sum(1) > 0
    held &= np.isin(np.arange(len(held)), pairs)  # rows of others may be noise alone
    if held.sum() < 3:
        raise CannotAttack(f"fewer than three nodes of client {client} have rows")
    whitened = np.zeros((len(stacked), min(int(held.sum()), stacked.shape[1])))
    whitened[held] = whiten(stacked[held], noise.sd if noise else 0.0)
    last = np.where(held[:, None], rounds[max(rounds)].double().numpy(), 0)
    stacked = np.where(held[:, None], stacked, 0)
    parts = [described(rows, pairs) for rows in (last, stacked, whitened)]
    if view.answers is not None:
        parts.append(described_answers(view.answers, pairs))
    return np.concatenate(parts, 1)


ATTACK = Attack(
    name="supervised_links",
    summary="a client's edges, from uploaded rows, by a classifier that an accomplice's edges "
    "taught",
    source="He et al. 2021, with a colluding client's graph as the shadow graph",
    needs=(ROWS,),
    assumes="one client's uploaded embeddings or predictions, and the edges of another client "
    "that colludes with the server",
    adversaries=frozenset({"server"}),
    question=StolenLinks,
    floor=0.1,
    expected="AUC 0.95 where whitened rows alone have 0.94, and 0.9997 on Cora",
    exposes="who is connected to whom at one client, once any other client helps the server",
    stopped_by="noise on the rows; masks in part, since the mean of all clients is left",
    run=run,
    rounds=10,
)
