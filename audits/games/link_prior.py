"""What is known of links without this run's uploads: one rule for every link game.

The released model's answers are known to whoever may query it, and the graph to a server that was
given it. Of the scores that follow, the best is taken with the truth in hand, to the disfavour of
the attack; where none is better than chance, chance is the prior.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack
from audits.metrics import auc
from audits.truth import Truth
from securefg.protocol.transcript import Adversary


def link_prior(
    truth: Truth,
    adversary: Adversary,
    pairs: NDArray[np.int64],
    so: NDArray[np.int64],
    more: Sequence[Array] = (),
) -> Array | None:
    """Scores of pairs of global node ids, and of these known scores the best; None for chance."""
    if adversary.kind == "server" and truth.experiment.public.edge_index is not None:
        raise CannotAttack("the server is given the graph: links are no secret to it")
    candidates = [*more]
    if truth.answers is not None and adversary.kind != "wire":
        candidates += answers_alike(truth.answers.double().softmax(-1).numpy(), pairs)
    best = max(candidates, key=lambda scores: auc(so, scores), default=None)
    return best if best is not None and auc(so, best) > 0.5 else None


def answers_alike(answers: Array, pairs: NDArray[np.int64]) -> list[Array]:
    """Nearness of two answers, as distance and as cosine of what is above the mean."""
    first, second = answers[pairs[:, 0]], answers[pairs[:, 1]]
    near = -np.abs(first - second).sum(1)
    centre = answers.mean(0)
    rows = [x - centre for x in (first, second)]
    sizes = np.linalg.norm(rows[0], axis=1) * np.linalg.norm(rows[1], axis=1)
    cosine = (rows[0] * rows[1]).sum(1) / np.maximum(sizes, 1e-12)
    return [near, cosine]
