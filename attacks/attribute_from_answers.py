"""A sensitive number of others' nodes, from what the released model answers about them."""

from __future__ import annotations

import numpy as np
import torch

from attacks.attribute_decoder import decoded
from attacks.base import Array, Attack, CannotAttack, View
from attacks.questions import SensitiveColumn
from securefg.protocol.meanings import Answers


def run(view: View, question: SensitiveColumn, rng: np.random.Generator) -> Array:
    if view.answers is None:
        raise CannotAttack("the released model answers for no nodes")
    said = view.answers.double()
    rows = torch.cat([said, said.softmax(-1)], -1).numpy()
    mean, spread = rows.mean(0), rows.std(0) + 1e-12
    rows = (rows - mean) / spread
    return decoded(rows[question.known_ids], question, rows[question.ids], rng)


ATTACK = Attack(
    name="attribute_from_answers",
    summary="a sensitive number of others' nodes, from what the released model answers",
    source="attribute inference after Fredrikson et al. 2014",
    needs=(Answers(),),
    assumes="the released model's answers, and the sensitive number of some nodes: one's own",
    adversaries=frozenset({"client", "outsider"}),
    question=SensitiveColumn,
    floor=0.02,
    expected="as far as classes and the number go together",
    exposes="a sensitive number of a person at another client: an income, a gender, a test result",
    stopped_by="not answering for others' nodes; noise on the answers; noise on uploads hardly",
    run=run,
    rounds=30,
)
