"""A copy of the released model, made from answers to a number of queries.

Whoever may only ask learns the answers (logits) by ridge regression on a node's features, mixed
over its links no, one and two times (Tramer et al. 2016; for graphs Wu et al. 2022); the ridge is
the one that leaves-one-out best. The more queries the better, so several numbers of them are tried.
Where left-out answers are foreseen no better than by the commonest one, the prior is the guess.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from attacks.base import Array, Attack, CannotAttack, View
from attacks.questions import CopiedModel
from securefg.models.gcn import normalized_adjacency
from securefg.protocol.meanings import Answers

BUDGETS = (10, 30, 100, 300)
CLEAR = 2.0
"""Standard deviations by which left-out answers must be foreseen better than by the commonest."""
RIDGES = 10.0 ** np.arange(-4, 5)


def run(view: View, question: CopiedModel, rng: np.random.Generator) -> Array:
    """(targets, budgets): the class that a copy gives, by number of queries."""
    if view.answers is None:
        raise CannotAttack("the run released no model that answers for nodes")
    if len(question.queries) < BUDGETS[0]:
        raise CannotAttack(f"{len(question.queries)} nodes to ask about; {BUDGETS[0]} are needed")
    rows = mixed(question.known, question.edges)
    answers: Array = view.answers.double().numpy()
    columns = [
        _copied(question, rows, answers, question.queries[:count])
        for count in budgets(len(question.queries))
    ]
    return np.stack(columns, 1)


def budgets(available: int) -> list[int]:
    """Numbers of queries that are tried, ascending."""
    return [count for count in BUDGETS if count < available] + [available]


def _copied(question: CopiedModel, rows: Array, answers: Array, asked: NDArray[np.int64]) -> Array:
    said = answers[asked] - answers[asked].mean(1, keepdims=True)
    guess, foreseen = regressed(rows[asked], said, rows[question.ids])
    common = np.bincount(said.argmax(1)).max() / len(asked)
    clear = common + CLEAR * np.sqrt(common * (1 - common) / len(asked))
    if question.prior is not None and (foreseen == said.argmax(1)).mean() <= clear:
        own: Array = question.prior[:, -1]
        return own
    found: Array = guess.argmax(1).astype(np.float64)
    return found


def mixed(features: NDArray[np.float32], edges: NDArray[np.int64]) -> Array:
    """Features, and what one and two mixings over the links make of them, side by side."""
    parts = [torch.from_numpy(features).float()]
    operator = normalized_adjacency(torch.from_numpy(edges), len(features))
    for _ in range(2):
        parts.append(operator @ parts[-1])
    found: Array = torch.cat([part / part.norm().clamp_min(1e-12) for part in parts], 1).numpy()
    return found.astype(np.float64)


def regressed(rows: Array, said: Array, wanted: Array) -> tuple[Array, NDArray[np.int64]]:
    """The ridge regression for the wanted rows, and the class it gives each row without its own."""
    centre, level = rows.mean(0), said.mean(0)
    rows, wanted, said = rows - centre, wanted - centre, said - level
    gram = rows @ rows.T
    gram_size = np.trace(gram) / len(gram) + 1e-300
    best = (np.inf, np.zeros_like(said), said)
    for ridge in RIDGES:
        inverse = np.linalg.inv(gram + ridge * gram_size * np.eye(len(gram)))
        weights = inverse @ said
        left_out = said - weights / np.diag(inverse)[:, None]
        loss = float(np.square(left_out - said).mean())
        if loss < best[0]:
            best = (loss, weights, left_out)
    _, weights, left_out = best
    return wanted @ (rows.T @ weights) + level, (left_out + level).argmax(1)


ATTACK = Attack(
    name="extraction",
    summary="a copy of the released model, from answers to at most some hundred queries",
    source="Tramer et al. 2016; Wu et al. 2022 for graphs; ridge regression on mixed features",
    needs=(Answers(),),
    assumes="answers (scores of all classes) about nodes whose features and links are known: a "
    "client's own, or an outsider's",
    adversaries=frozenset({"client", "outsider"}),
    question=CopiedModel,
    floor=0.05,
    expected="0.87 to 0.92 of all answers alike after 300 queries on Cora, 0.8 after 100",
    exposes="nothing by itself; a copy can be attacked at leisure, unseen and without a limit",
    stopped_by="fewer answers per party; labels without scores slow it; noise on uploads does not",
    run=run,
    rounds=1,
)
