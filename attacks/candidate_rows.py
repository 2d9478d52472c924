"""Which of some hundred known rows is a client's? The likelihood of all that it uploaded.

Whoever holds a list (a leaked table, a register) asks which entry a pseudonymous client is. Under
noise the first place is soon lost, and ranks are not: every candidate's upload is computed and
compared with what was seen, rounds and fields together (`expected_uploads`), and what neighbours'
rows tell is added. The best that anybody can do who knows the policy: Neyman and Pearson 1933.
"""

from __future__ import annotations

import numpy as np
import torch

from attacks.base import Array, Attack, CannotAttack, View
from attacks.expected_uploads import HIDDEN, ROUNDS, SLOPE, of_latents, of_models
from attacks.latents import LATENT, needs_shared_start
from attacks.questions import CandidateRows


def run(view: View, question: CandidateRows, rng: np.random.Generator) -> Array:
    """A score for every target and candidate."""
    pool = torch.from_numpy(question.candidates).float()
    found = np.zeros((len(question.ids), len(pool)))
    if view.places(LATENT):
        found = found + of_latents(view, question.ids, pool)
    else:
        terms = list(of_models(view, question.ids, pool))
        if not terms:
            raise CannotAttack("no round in which both a model and uploads made by it are readable")
        found = found + np.sum(terms, 0)
    return found if question.prior is None else found + question.prior


def _can_be_computed(view: View) -> str | None:
    return needs_shared_start(view) if view.places(LATENT) else None


ATTACK = Attack(
    name="candidate_rows",
    summary="which of some hundred candidate rows is a client's, by the likelihood of its uploads",
    source="Neyman and Pearson 1933; rounds and fields jointly, the policy's clip and noise known",
    needs=((SLOPE, HIDDEN, LATENT),),
    assumes="uploads of clients that are single nodes; the models they were sent, or shared first "
    "weights; candidates with the client's row among them; the graph, where the server is given it",
    adversaries=frozenset({"server"}),
    question=CandidateRows,
    floor=0.1,
    expected="the first place without noise; under noise what epsilon leaves of ranks",
    exposes="which entry of a known list a pseudonymous client is, or which ones it is not",
    stopped_by="noise, as far as epsilon says; masks, where no upload is read alone",
    run=run,
    rounds=ROUNDS,
    applies_to=_can_be_computed,
)
