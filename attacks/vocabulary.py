"""F4: which words a client's documents use, read off the first layer of its uploaded model.

A word that occurs nowhere near a training node gets no gradient: its row of W0 moves by weight
decay alone, along a path that anybody can compute from the model that was sent. Whatever row left
that path belongs to a word in use. Melis et al. 2019 do so for the embeddings of a text model.
"""

from __future__ import annotations

import numpy as np
import torch

from attacks.base import Array, Attack, View
from attacks.client_models import MODEL, client_models, layout_of, off_the_path
from attacks.evidence import largest_shift, leaning
from attacks.questions import ClientWords


def run(view: View, question: ClientWords, rng: np.random.Generator) -> Array:
    models = client_models(view, question.client or 0)
    left = [off_the_path(view, trained) for trained in models.values()]
    moved = torch.stack([rows.abs().amax(1) for rows in left if rows is not None])
    noise = view.best_rows(MODEL)[0].noise
    best = moved.amax(0) if noise is None else moved.square().mean(0)
    found: Array = best[torch.from_numpy(question.ids)].double().numpy()
    shift = largest_shift(noise, len(found) ** -0.5, len(moved))
    return leaning(found, question.prior, shift)


def _decay_can_be_followed(view: View) -> str | None:
    layout = layout_of(view)
    if not layout.inputs:
        return "which of the weights multiply features is not known"
    return None if layout.optimizer == "adam" else "where decay alone leads is followed for Adam"


ATTACK = Attack(
    name="vocabulary",
    summary="which words a client's documents use, from the rows of W0 that training moved",
    source="F4; Melis et al. 2019 for text models",
    needs=(MODEL,),
    hears=(MODEL,),
    assumes="one client's uploaded models, and the models it was sent",
    adversaries=frozenset({"server"}),
    question=ClientWords,
    floor=0.05,
    expected="all words within two hops of a (pseudo-)labelled node, none else",
    exposes="which words, codes or products occur at all in a client's records",
    stopped_by="masks, as to which client; noise on the update",
    run=run,
    rounds=5,
    applies_to=_decay_can_be_followed,
)
