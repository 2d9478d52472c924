"""A sensitive number of a node, from the rows that its client uploads about it."""

from __future__ import annotations

import numpy as np

from attacks.attribute_decoder import decoded
from attacks.base import Array, Attack, View
from attacks.questions import SensitiveColumn
from attacks.uploaded_rows import ROWS, decoder_pairs

ROUNDS = 5


def run(view: View, question: SensitiveColumn, rng: np.random.Generator) -> Array:
    pairs = decoder_pairs(view, question, ROUNDS)
    return decoded(pairs.known, question, pairs.wanted, rng)


ATTACK = Attack(
    name="attribute_from_rows",
    summary="a sensitive number of a node, from its uploaded rows",
    source="attribute inference after Fredrikson et al. 2014; Duddu et al. 2020 on embeddings",
    needs=(ROWS,),
    assumes="uploads of all nodes, and the sensitive number of some of them",
    adversaries=frozenset({"server"}),
    question=SensitiveColumn,
    floor=0.02,
    expected="as far as the number is in the embedding: AUC 0.6 to 0.9",
    exposes="a sensitive number of a person: an income, a gender, a test result",
    stopped_by="noise on the rows; masks, where several clients hold a node",
    run=run,
    rounds=ROUNDS,
)
