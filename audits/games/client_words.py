"""Which words (feature columns) occur in one client's documents?"""

from __future__ import annotations

import numpy as np

from attacks.base import CannotAttack
from attacks.questions import ClientWords
from audits.games.base import BinaryGame, other_nodes, plays, victim
from audits.truth import Truth
from securefg.protocol.transcript import Adversary


@plays(ClientWords)
def make(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> BinaryGame:
    """Prior: how often a word occurs in a tenth of the nodes that this client does not hold."""
    client = victim(truth, adversary)
    used = (truth.experiment.shards[client].graph.features != 0).any(0).numpy()
    if used.all() or not used.any():
        raise CannotAttack(f"client {client} uses all of the features, or none: nothing to guess")
    order = rng.permutation(len(used))
    elsewhere = other_nodes(truth, client)
    sample = rng.permutation(elsewhere)[: max(10, len(elsewhere) // 10)]
    frequency = (truth.features()[sample] != 0).mean(0) if len(sample) else np.zeros(len(used))
    return BinaryGame(
        question=ClientWords(ids=order, client=client),
        metric="AUC over the words of the vocabulary",
        unit="word of a client",
        truth=used[order].astype(np.int64),
        prior_scores=frequency[order].astype(np.float64),
    )
