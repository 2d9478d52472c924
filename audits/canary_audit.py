"""The audit of one run by its canaries (Steinke, Nasr and Jagielski 2023), and of several runs.

Every canary is IN or OUT of the training by a fair coin. After training the released model is
shown all of them, each with its words and its edges, and those of the lowest loss are guessed IN,
those of the highest OUT. How many guesses are made is fixed here, before any run. The unit is the
node with its edges and its label.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from attacks.base import Array, CannotAttack
from attacks.confidence import log_confidence
from audits.empirical_epsilon import (
    EpsilonBound,
    one_run_bound,
    one_run_gdp_bound,
    several_trainings,
)
from audits.findings.record import Finding, Verdict
from audits.mechanisms.results import CANARIES
from audits.truth import Truth
from securefg.data.canaries import Canaries, with_canaries
from securefg.data.graph import Graph
from securefg.privacy.defence import NoisyUpload

UNIT = "node with its edges"
SHARE_GUESSED = 1 / 3
"""Of the canaries, guessed IN; as many again are guessed OUT, and the rest is left open."""


def audit_canaries(truth: Truth) -> list[Finding]:
    """Return the finding of a run that carries canaries, or no finding for a run without
    canaries."""
    if truth.experiment.canaries is None:
        return []
    started = time.monotonic()
    try:
        scores = canary_scores(truth)
    except CannotAttack as reason:
        return [_make_finding(truth, started, Verdict.INCONCLUSIVE, str(reason), None)]
    inside = truth.experiment.canaries.inside.numpy()
    claimed, why = claimed_epsilon(truth)
    bound, right, guesses = _shown_bound(truth, scores, inside, claimed, 0.95)
    verdict = Verdict.LEAK if bound.epsilon > 0 else Verdict.NOT_DETECTED
    if claimed is not None and bound.epsilon > claimed:
        # A run is not drawn again: what it shows must hold at the level of the whole audit.
        bound, _, _ = _shown_bound(truth, scores, inside, claimed, 1 - CANARIES)
        verdict = Verdict.VIOLATION if bound.epsilon > claimed else Verdict.LEAK
    said = f"{right} of {guesses} guesses about {len(inside)} canaries are right; {why}"
    return [_make_finding(truth, started, verdict, said, bound, claimed, right / max(guesses, 1))]


def _shown_bound(
    truth: Truth,
    scores: Array,
    inside: NDArray[np.bool_],
    claimed: float | None,
    confidence: float,
) -> tuple[EpsilonBound, int, int]:
    """Return the bound, the right guesses and all guesses, by the estimator that the claim calls
    for. The estimator is fixed beforehand, whatever the scores show."""
    delta = truth.experiment.policy.delta
    bound, right, guesses = judge_scores(scores, inside, delta, confidence)
    if claimed is not None and _is_gaussian(truth):
        bound = one_run_gdp_bound(len(inside), guesses, right, delta, confidence)
    return bound, right, guesses


def _is_gaussian(truth: Truth) -> bool:
    """Return whether the claim is of Gaussian releases alone, which have the trade-off of one
    Gaussian."""
    rules = truth.experiment.policy.rules.values()
    exact = [isinstance(r, NoisyUpload) and r.accounting == "gaussian" for r in rules]
    return bool(rules) and all(exact)


def judge_scores(
    scores: Array, inside: NDArray[np.bool_], delta: float, confidence: float = 0.95
) -> tuple[EpsilonBound, int, int]:
    """Return the lower bound, how many guesses are right, and how many were made."""
    each = int(len(scores) * SHARE_GUESSED)
    order = np.argsort(scores, kind="stable")
    lowest, highest = order[:each], order[len(order) - each :]
    right = int(inside[highest].sum() + (~inside[lowest]).sum())
    return one_run_bound(len(scores), 2 * each, right, delta, confidence), right, 2 * each


def canary_scores(truth: Truth) -> Array:
    """Return minus the released model's loss on every canary, shown with its words and its
    edges."""
    x, canaries = truth.experiment, truth.experiment.canaries
    if canaries is None:
        raise CannotAttack("the run carries no canaries (audit.canaries)")
    if x.method.make_evaluator is None or truth.release is None:
        raise CannotAttack("the run released no model that answers for nodes")
    shown = shown_to_the_model(x.union, canaries)
    evaluator = x.method.make_evaluator(shown, x.config.method, x.public.device)
    answers = evaluator.answers(truth.release)
    if answers is None:
        raise CannotAttack("the run released no model that answers for nodes")
    return log_confidence(answers[canaries.nodes].numpy(), canaries.labels.numpy())


def shown_to_the_model(union: Graph, canaries: Canaries) -> Graph:
    """Return the data of all clients together with every canary whole, whatever its coin and its
    holders. The question must not tell which canaries are in."""
    others = torch.arange(canaries.first)
    return with_canaries(union.subgraph(others), canaries, torch.ones_like(canaries.inside))


def over_trainings(
    truths: Sequence[Truth], canary: int, delta: float, confidence: float = 0.95
) -> EpsilonBound:
    """Return estimator (iii) for one canary over trainings of other seeds with the same
    `audit.seed`.

    Only one canary counts, because the canaries of one training are not independent of one another.
    """
    first = truths[0].experiment.canaries
    scores, inside = [], []
    for truth in truths:
        canaries = truth.experiment.canaries
        if first is None or canaries is None or not _same_looks(first, canaries):
            raise CannotAttack("the runs do not carry the same canaries (audit.seed)")
        scores.append(canary_scores(truth)[canary])
        inside.append(bool(canaries.inside[canary]))
    values, coins = np.array(scores), np.array(inside)
    return several_trainings(values[coins], values[~coins], delta, confidence)


def _same_looks(one: Canaries, other: Canaries) -> bool:
    names = ("features", "neighbours", "labels")
    return one.first == other.first and all(
        torch.equal(getattr(one, name), getattr(other, name)) for name in names
    )


def claimed_epsilon(truth: Truth) -> tuple[float | None, str]:
    """Return the epsilon that the run promises for a canary, if any, and why.

    A node's epsilon covers the canary wherever it is held, with at most as many links as the claim
    is for. A client's epsilon covers a node that this client alone holds, unless the server is
    given part of the data without noise.
    """
    x, canaries = truth.experiment, truth.experiment.canaries
    promised = truth.folder.summary().epsilon
    node, client = promised.get("node"), promised.get("client")
    if x.method.server_knows & {"graph", "labels"}:
        return None, "the server is given edges or labels, which no epsilon covers"
    if (
        node is not None
        and node.epsilon is not None
        and _most_links(truth) <= _covered_links(truth)
    ):
        return float(node.epsilon), "a node's epsilon covers every canary, with all its holders"
    claim = None if client is None else client.epsilon
    if claim is None:
        return None, "no epsilon is claimed"
    holders = torch.bincount(x.partition.nodes, minlength=x.partition.num_nodes)
    if canaries is None or int(holders[canaries.nodes].max()) > 1:
        return None, "canaries are with several clients, which no client's epsilon covers"
    return float(claim), "every canary is with one client, whose epsilon covers it"


def _most_links(truth: Truth) -> int:
    """Return the most links that any canary has."""
    found = truth.experiment.canaries
    return 0 if found is None else found.neighbours.shape[1]


def _covered_links(truth: Truth) -> int:
    """Return the number of links that the claim for a node is made for. A claim that names no
    number covers any."""
    x = truth.experiment
    planned = x.method.planned(x.config.method, x.config.training, x.public)
    links = [release.node.links for release in planned if release.node.moved is not None]
    return min(links, default=_most_links(truth))


def _make_finding(
    truth: Truth,
    started: float,
    verdict: Verdict,
    because: str,
    bound: EpsilonBound | None,
    claimed: float | None = None,
    share_right: float | None = None,
) -> Finding:
    return Finding(
        adversary="outsider",
        attack="canaries",
        method=truth.experiment.method.name,
        metric="epsilon by the canaries of one run",
        unit=UNIT,
        verdict=verdict,
        because=because,
        epsilon_claimed=claimed,
        epsilon_lower=bound.epsilon if bound else None,
        epsilon_ceiling=bound.ceiling if bound else None,
        confidence=bound.confidence if bound else 0.95,
        estimator=bound.estimator if bound else "",
        targets=bound.trials if bound else 0,
        details={} if share_right is None else {"share_right": share_right},
        assumptions=(
            "coins are fair and independent of one another",
            "the number of guesses was fixed before the run",
        ),
        seconds=round(time.monotonic() - started, 3),
    )
