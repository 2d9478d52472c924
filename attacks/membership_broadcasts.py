"""Was a node's label trained on by others? Read by a client off the models that all are sent.

Two models that were sent one after the other differ by the mean of all clients' changes, whatever
masks hid single ones; the client takes its own off. A target's part in the rest is read as the
server reads it off uploads (see `membership_gradients`): by regression on all targets' gradients at
once, and by cosine.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from attacks.base import Array, Attack, CannotAttack, View
from attacks.client_models import MODEL, client_models, layout_of, sent_models
from attacks.confidence import share_of_one
from attacks.evidence import largest_shift, leaning, normal_scores
from attacks.membership_gradients import regressed
from attacks.node_gradients import Around, Known, gradients, has_equations
from attacks.questions import OthersMembers

STEPS = 12


def run(view: View, question: OthersMembers, rng: np.random.Generator) -> Array:
    if question.known is None or question.edges is None:
        raise CannotAttack("the graph and its features are not known")
    layout, labels = layout_of(view), torch.from_numpy(question.labels)
    known = Known(torch.from_numpy(question.known), torch.from_numpy(question.edges))
    around, sent = Around.of(layout, known, question.ids), sent_models(view)
    if len(sent) < 2:
        raise CannotAttack("fewer than two models that were sent are in the view")
    own, total = _own_parts(view), np.zeros(len(labels))
    for before, after in list(pairwise(sorted(sent)))[:STEPS]:
        received = sent[before].float()
        pulls = gradients(layout, received, around, labels)
        pulls = pulls / pulls.norm(dim=1, keepdim=True).clamp_min(1e-12)
        moved = sent[after].float() - received
        if after == before + 1 and before in own:
            moved = moved - own[before]
        pull = -moved / moved.norm().clamp_min(1e-12)
        for sign in (regressed(pulls, pull), pulls @ pull):
            total += normal_scores(sign.double().numpy())
    noises = [view.noise[place] for place in view.places(MODEL) if place in view.noise]
    noise = noises[0].of_sum(view.public.num_clients) if noises else None
    shift = largest_shift(noise, share_of_one(view, question), len(sent) - 1)
    return leaning(total, question.prior, shift)


def _own_parts(view: View) -> dict[int, Tensor]:
    """By round, what the client itself moved the mean by, taking all clients to weigh alike."""
    found: dict[int, Tensor] = {}
    for shard in view.own:
        try:
            models = client_models(view, shard.client)
        except CannotAttack:
            continue  # an upload that cannot be read back stays in
        for number, trained in models.items():
            part = trained.moved / view.public.num_clients
            found[number] = found[number] + part if number in found else part
    return found


ATTACK = Attack(
    name="membership_broadcasts",
    summary="whether others train on a node's label, from the models that every client is sent",
    source="derived here, as gradient membership by the server; Melis et al. 2019 for the place",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="the models sent in some rounds, the graph, all features, and the targets' labels",
    adversaries=frozenset({"client"}),
    question=OthersMembers,
    floor=0.1,
    expected="AUC 0.7 to 0.8 over six silos; the fewer clients, the more",
    exposes="that a person's record is in another client's training set, to a mere participant",
    stopped_by="noise on the update; more clients; masks do not, since the mean is sent to all",
    run=run,
    rounds=13,
    applies_to=has_equations,
)
