"""A game about models: how alike is a copy of the released model, made from answers alone?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack
from attacks.models import BUDGETS, mixed_features, query_budgets, ridge_copy
from attacks.questions import CopiedModel
from audits.games.base import NULL_DRAWS, NULL_SDS, OutcomeGame, plays
from audits.truth import Truth
from securefg.foundation.interval import Interval
from securefg.foundation.unique import numbers_except, sorted_unique
from securefg.protocol.transcript import Adversary

MANY_TARGETS, MANY_QUERIES = 400, 300
ALIKE = 0.9


@dataclass(frozen=True)
class CopyGame(OutcomeGame):
    """A game about a copy of the released model."""

    def null(self, guess: Array, rng: np.random.Generator) -> tuple[Interval, bool]:
        """Compare with other nodes' answers: as often alike as the classes' shares alone make
        it."""
        said = guess[:, -1].astype(np.int64)
        classes = int(max(said.max(), self.truth.max())) + 1
        shares = [np.bincount(of, minlength=classes) / len(of) for of in (said, self.truth)]
        drawn = [(said == rng.permutation(self.truth)).mean() for _ in range(NULL_DRAWS)]
        mean, spread = float(np.mean(drawn)), NULL_SDS * float(np.std(drawn)) / NULL_DRAWS**0.5
        low, high = np.quantile(drawn, [0.025, 0.975])
        figure = Interval(value=mean, low=float(low), high=float(high))
        return figure, abs(mean - float(shares[0] @ shares[1])) <= spread + 1e-9

    def extras(self, guess: Array) -> dict[str, float]:
        """Return the share alike by number of queries, and the fewest queries with which 90 % are
        alike."""
        assert isinstance(self.question, CopiedModel)
        numbers = query_budgets(len(self.question.queries))
        alike = (guess == self.truth[:, None]).mean(0)
        shares = zip(numbers, alike.tolist(), strict=True)
        found = {f"alike_after_{number}_queries": share for number, share in shares}
        enough = [number for number, share in zip(numbers, alike, strict=True) if share >= ALIKE]
        return {**found, "queries_for_0.9": float(enough[0])} if enough else found


@plays(CopiedModel)
def copied_model(truth: Truth, adversary: Adversary, rng: np.random.Generator) -> CopyGame:
    """Ask for the released model's answers about nodes that were not asked about.

    The guess is a class by each number of queries, and counts where it is the released model's own.
    A client asks about its own nodes, an outsider about half of all. The prior is the better of the
    commonest answer and a client's own model of its own labels.
    """
    if truth.answers is None:
        raise CannotAttack("the run released no model that answers for nodes")
    features, edges = truth.features(), truth.graph.edge_index.numpy()
    if features.ndim != 2:
        raise CannotAttack("nodes hold several samples each")
    held = rng.permutation(truth.held_nodes)
    own = [truth.experiment.shards[k].node_ids.numpy() for k in sorted(adversary.clients)]
    asked = rng.permutation(sorted_unique(np.concatenate(own))) if own else held[::2]
    asked = asked[:MANY_QUERIES]
    ids = numbers_except(truth.held_nodes, np.concatenate([asked, *own]))
    ids = rng.permutation(ids)[:MANY_TARGETS]
    if len(asked) < BUDGETS[0] or len(ids) < BUDGETS[0]:
        raise CannotAttack(f"{len(asked)} nodes to ask about, {len(ids)} others: too few")
    answer_classes = truth.answers.argmax(1).numpy()
    return CopyGame(
        question=CopiedModel(
            ids=ids,
            known_ids=np.arange(len(features)),
            known=features,
            edges=edges,
            queries=asked,
        ),
        metric="share of nodes for which a copy says what the released model says",
        unit="released model",
        truth=answer_classes[ids],
        outcome=_alike_answers,
        prior_guess=_better_prior(truth, adversary, ids, answer_classes)[:, None],
    )


def _alike_answers(guess: Any, truth: Any) -> Array:
    found: Array = (np.asarray(guess)[:, -1] == truth).astype(np.float64)
    return found


def _better_prior(
    truth: Truth, adversary: Adversary, ids: NDArray[np.int64], answer_classes: NDArray[np.int64]
) -> Array:
    """Return the better of the two priors, chosen with the truth in hand."""
    common = np.full(len(ids), float(np.bincount(answer_classes[ids]).argmax()))
    options = [common]
    shards = [truth.experiment.shards[k] for k in sorted(adversary.clients)]
    trained = [s.node_ids[s.graph.split.train].numpy() for s in shards if s.graph.labels.dim() == 1]
    nodes = sorted_unique(np.concatenate([*trained, np.zeros(0, np.int64)]))
    if len(nodes) > 1:
        rows = mixed_features(truth.features(), truth.graph.edge_index.numpy())
        labels = np.eye(truth.graph.num_classes)[truth.graph.labels.numpy()[nodes]]
        scores, _ = ridge_copy(rows[nodes], labels, rows[ids])
        options.append(scores.argmax(1).astype(np.float64))
    return max(options, key=lambda guess: float((guess == answer_classes[ids]).mean()))
