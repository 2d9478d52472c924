"""Figures by group: an average hides the few who are exposed.

The exposure of a target with a true answer is the share of the other targets that its score lies
above (the mean is the AUC). The exposure of a compared guess is its outcome. Groups are by degree,
class and client, and no group of fewer than five targets is told. About single targets, only how
far the ten most exposed stand out is told, beside what chance or the prior gives the best ten.

A guess picks out the targets above a score that few others reach. If all people are protected
alike, the ten that an attack is surest of are members no more often than anybody else. A mean gain
of .005 is within every interval. Ten members among the ten highest scores have a chance of 1 in
1000.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from attacks.base import Array
from audits import metrics
from audits.findings.record import Group
from audits.games.base import BinaryGame, Game, OutcomeGame, somebody_elses
from audits.metrics import LEAST_FALSE_POSITIVES, clopper_pearson
from audits.truth import Truth

LEAST, TEN, MANY_CLIENTS = 5, 10, 20
OF_NODES = ("row", "node", "label of a node", "node with its edges")
"""Units of games whose targets are nodes."""
Ids = NDArray[np.int64]


def target_exposure(game: Game, guess: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return how exposed each target is, and for which targets this is told: none in games of other
    kinds."""
    if isinstance(game, BinaryGame):
        return _score_placement(game.truth, guess), game.truth == 1
    if isinstance(game, OutcomeGame):
        found = game.per_record(guess)["outcome"]
        return np.asarray(found, np.float64), np.ones(len(found), bool)
    return np.zeros(len(guess)), np.zeros(len(guess), bool)


def exposure_groups(truth: Truth, game: Game, guess: Array) -> tuple[Group, ...]:
    """Return the exposure by group, for games about nodes or edges of the run's graph. Other games
    have no groups."""
    values, said_of = target_exposure(game, guess)
    groups = []
    for by, name, members in _group_members(truth, game):
        own = values[members & said_of]
        if len(own) >= LEAST:
            figure = metrics.bootstrap_mean(own, 0)
            groups.append(Group(by=by, name=name, targets=len(own), value=figure))
    return tuple(groups)


def top_ten(game: Game, guess: Array) -> dict[str, float]:
    """Return the mean exposure of the ten most exposed, and the same for the prior's guess."""
    values, said_of = target_exposure(game, guess)
    if said_of.sum() < 2 * TEN:
        return {}
    return {
        "top_ten": _top_mean(values[said_of]),
        "top_ten_prior": _prior_exposure(game, int(said_of.sum())),
    }


def _prior_exposure(game: Game, count: int) -> float:
    if isinstance(game, OutcomeGame):
        return _top_mean(np.asarray(game.per_record(game.prior_guess)["outcome"], np.float64))
    assert isinstance(game, BinaryGame)
    if game.prior_scores is None:  # the best of `count` places drawn at random
        return 1 - (TEN + 1) / (2 * (count + 1))
    return _top_mean(_score_placement(game.truth, game.prior_scores)[game.truth == 1])


def _top_mean(values: Array) -> float:
    return float(np.sort(values)[-TEN:].mean())


def _score_placement(truth: Ids, scores: Array) -> Array:
    """Return the share of the others that each score lies above, with half of those that it
    equals."""
    others, order = np.sort(scores[truth == 0]), np.argsort(scores)
    ascending = scores[order]  # neighbours are found in what was read last
    below, upto = (np.searchsorted(others, ascending, side) for side in ("left", "right"))
    found: Array = np.empty(len(scores))
    found[order] = (below + upto) / (2 * len(others))
    return found


def _group_members(truth: Truth, game: Game) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    ids, graph = game.question.ids, truth.graph
    pairs = ids.ndim == 2 and ids.shape[1:] == (2,) and game.unit == "edge"
    if not pairs and (ids.ndim != 1 or game.unit not in OF_NODES):
        return
    degrees = np.bincount(graph.edge_index[0].numpy(), minlength=graph.num_nodes)
    of_targets = degrees[ids].min(1) if pairs else degrees[ids]
    yield from _by_degree(of_targets)
    if pairs or graph.labels.dim() != 1:
        return
    labels = graph.labels.numpy()[ids]
    for label in np.unique(labels[labels >= 0]).tolist():
        yield "class", f"class {label}", labels == label
    partition = truth.experiment.partition
    if 1 < partition.num_clients <= MANY_CLIENTS:
        for client, nodes in enumerate(partition.clients):
            yield "client", f"client {client}", np.isin(ids, nodes.numpy())


def _by_degree(degrees: Ids) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Yield thirds of the targets by degree, as nearly as whole degrees allow."""
    bounds = np.unique(np.quantile(degrees, [1 / 3, 2 / 3], method="lower"))
    low = int(degrees.min())
    for high in [*bounds.tolist(), int(degrees.max())]:
        if high >= low:
            name = f"degree {low}" if high == low else f"degree {low} to {int(high)}"
            yield "degree", name, (degrees >= low) & (degrees <= high)
            low = int(high) + 1


FALSE_ALARMS = (0.05, 0.1, 0.2)


def picked_targets(game: Game, guess: Array) -> dict[str, float]:
    """Return counts at the lowest rate of false alarms that the number of other targets can show.

    Only games about single nodes are counted.

    picked_of  targets of which the game's question is true
    picked     those above the threshold
    """
    if not isinstance(game, BinaryGame) or "node" not in game.unit:
        return {}
    if game.question.ids.ndim != 1:
        return {}
    ones, others = guess[game.truth == 1], np.sort(guess[game.truth == 0])[::-1]
    for rate in FALSE_ALARMS:
        allowed = rate * len(others)
        if allowed >= LEAST_FALSE_POSITIVES - 1e-9:
            threshold = others[min(math.floor(allowed + 1e-9), len(others) - 1)]
            count = float((ones > threshold).sum())
            return {"picked": count, "picked_of": float(len(ones)), "picked_false_alarms": rate}
    return {}


MOST_EXPOSED = 10
LEAST_OF_EACH = 10 * MOST_EXPOSED


def tail_chance(game: Game, guess: Array, rng: np.random.Generator) -> float | None:
    """Return the chance that ten targets stand out as the ten most exposed do.

    None where targets are few, or where an outcome is only right or wrong, which a lucky guess is.
    """
    if isinstance(game, BinaryGame):
        return _chance_among(game.truth == 1, guess, game.prior_scores)
    if isinstance(game, OutcomeGame):
        own, others = game.gains(guess), game.gains(guess, somebody_elses(game.truth, rng))
        if len(np.unique(own)) > MOST_EXPOSED:
            so = np.repeat([True, False], len(own))
            return _chance_among(so, np.concatenate([own, others]), None)
    return None


def _chance_among(is_true: NDArray[np.bool_], scores: Array, prior: Array | None) -> float | None:
    """Return the chance of as many among the ten best, by the share of all, or of the prior's."""
    if min(int(is_true.sum()), int((~is_true).sum())) < LEAST_OF_EACH:
        return None
    share = float(is_true.mean())
    if prior is not None:
        share = max(share, clopper_pearson(_best_true(is_true, prior), MOST_EXPOSED).high)
    return float(bdtrc(_best_true(is_true, scores) - 1, MOST_EXPOSED, min(share, 1.0)))


def _best_true(is_true: NDArray[np.bool_], scores: Array) -> int:
    """Return how many of the ten best scores are true. Ties with the tenth count as they fall on
    average, rounded down."""
    last = np.partition(scores, scores.size - MOST_EXPOSED)[scores.size - MOST_EXPOSED]
    above, tied = scores > last, scores == last
    room = MOST_EXPOSED - int(above.sum())
    return int(is_true[above].sum() + room * is_true[tied].mean() + 1e-9)
