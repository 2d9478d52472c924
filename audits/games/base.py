"""Games: they hold the truth, draw the targets, and score a guess beside its controls.

Two kinds. In a `BinaryGame` every target is either so or not so, the guess is a score per target,
and the metric is the AUC. In an `OutcomeGame` the guess is compared with the truth target by target
and the metric is the mean outcome, between 0 and 1. Both know what is reached without the run
(`prior`), what a guess is worth against permuted truth (`null`), and the gain over the prior.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from attacks.base import CannotAttack
from attacks.questions import Array, Question
from audits import metrics
from audits.blind import sure_end
from audits.closed_form import MakeForm
from audits.metrics import pair_auc, pair_gain
from audits.truth import Truth
from securefg.foundation.errors import ConfigError
from securefg.foundation.interval import Interval
from securefg.foundation.ranks import average_ranks
from securefg.foundation.unique import numbers_except
from securefg.protocol.transcript import Adversary

NULL_DRAWS = 20
NULL_SDS = 5.0
"""Of the mean over the draws, and of the luck of the targets, which all draws share: a prior that
guesses the same for everybody may fit the chosen targets badly. Permuted truth is at chance by
construction: what lets through one in a hundred honest audits would take a leak off the page."""

VICTIM_NODES = 500
"""A client of more nodes than this is attacked only if all are larger."""


class NotAsked(CannotAttack):
    """An error: the game is played only if a setting asks for it."""


Make = Callable[..., "Game"]
"""make(truth, adversary, rng): draws the targets, with the adversary's own data left out."""
M = TypeVar("M", bound=Make)
G = TypeVar("G", bound="Game")


@dataclass(frozen=True)
class Played:
    """A way to play a question. With `closed_form`, the law of the noise on a sum answers it."""

    make: Make
    closed_form: bool = False


GAMES: dict[type[Question], Played] = {}


def plays(question: type[Question], *, closed_form: bool = False) -> Callable[[M], M]:
    """Register the function below it as the game of a question."""

    def register(make: M) -> M:
        known = GAMES.get(question)
        if known is not None and _path_of(known.make) != _path_of(make):
            raise ConfigError(
                f"game: found two for the question {question.__name__!r}, {_path_of(known.make)} "
                f"and {_path_of(make)}; expected one. Give your game a question of its own"
            )
        GAMES[question] = Played(make, closed_form)
        return make

    return register


def _path_of(make: Make) -> str:
    return f"{make.__module__}.{make.__qualname__}"


@dataclass(frozen=True)
class Game(ABC):
    """A game: the parts that all games share.

    metric  the name of what is measured, for people
    unit    whose secret it is: row, node with its edges, sample, client
    closed  makes the gain that the law of the noise gives, where the game has such a form
    """

    question: Question
    metric: str
    unit: str
    closed: MakeForm | None = field(default=None, kw_only=True, repr=False)

    @property
    def without_run(self) -> Array | None:
        """Return the guess of the prior, which every adversary has, or None if the prior is
        chance."""
        return None

    @abstractmethod
    def measure(self, guess: Array) -> Interval:
        """Return the score of the guess, with its interval."""

    @abstractmethod
    def prior(self, guess: Array) -> Interval:
        """Return the score that is reached without the run, with its interval."""

    @abstractmethod
    def gain(self, guess: Array) -> Interval:
        """Return how much more the guess reached than the prior, on the same targets."""

    def sure_gain(self, guess: Array) -> float:
        """Return a gain that the guess surely had, but for one draw in a thousand."""
        return sure_end(self.gain(guess))

    @abstractmethod
    def null(self, guess: Array, rng: np.random.Generator) -> tuple[Interval, bool]:
        """Return the guess against permuted truth, and whether that is at chance."""

    @abstractmethod
    def per_record(self, guess: Array) -> dict[str, NDArray[Any]]:
        """Return the raw results that are kept, target by target."""

    def extras(self, guess: Array) -> dict[str, float]:
        """Return further figures, for the finding's details."""
        return {}

    def check(self, guess: Array) -> None:
        """Raise ValueError unless a guess has one finite entry per target. A NaN is a bug, and
        never means private."""
        if len(guess) != len(self.question.ids):
            raise ValueError(f"{len(guess)} guesses for {len(self.question.ids)} targets")
        if not np.isfinite(guess).all():
            raise ValueError("a guess that is not a finite number")


@dataclass(frozen=True)
class BinaryGame(Game):
    """A game whose targets are true or false, scored by the AUC.

    truth         1 for targets that are true, 0 for the others
    prior_scores  a guess made without the run, if any
    shared_sd     how far one draw of noise that all targets share moves the AUC by itself, beyond
                  what noise of their own would: an interval over targets does not show it

    If targets are pairs of nodes, intervals redraw the nodes (`audits.metrics`).
    """

    truth: NDArray[np.int64]
    prior_scores: Array | None = None
    shared_sd: float = 0.0

    @property
    def without_run(self) -> Array | None:
        """Return the scores of the prior, or None if the prior is chance."""
        return self.prior_scores

    def measure(self, guess: Array) -> Interval:
        """Return the AUC of the guess, with its interval."""
        self.check(guess)
        return self._auc_interval(guess)

    def _auc_interval(self, scores: Array) -> Interval:
        if self.question.ids.ndim == 2:
            found = pair_auc(self.truth, scores, self.question.ids)
        else:
            found = metrics.auc_interval(self.truth, scores)
        return metrics.widen_interval(found, found.value, self.shared_sd)

    def prior(self, guess: Array) -> Interval:
        """Return the AUC of the prior's scores, which is 0.5 for chance."""
        if self.prior_scores is None:
            return Interval(value=0.5, low=0.5, high=0.5)
        return self._auc_interval(self.prior_scores)

    def gain(self, guess: Array) -> Interval:
        """Return the AUC of the guess minus the prior's AUC, paired on the same targets."""
        if self.question.ids.ndim == 2:
            gain = pair_gain(self.truth, guess, self.prior_scores, self.question.ids)
            return metrics.widen_interval(gain, self._auc_interval(guess).value, self.shared_sd)
        if self.prior_scores is None:
            self.check(guess)
            found = self._auc_interval(guess)
            return Interval(value=found.value - 0.5, low=found.low - 0.5, high=found.high - 0.5)
        gain = metrics.auc_gain_interval(self.truth, guess, self.prior_scores)
        return metrics.widen_interval(gain, self._auc_interval(guess).value, self.shared_sd)

    def null(self, guess: Array, rng: np.random.Generator) -> tuple[Interval, bool]:
        """Return the AUC against permuted truth, and whether it is at chance."""
        ranks, ones = average_ranks(guess), int(self.truth.sum())
        drawn = [
            metrics.auc_of_ranks(rng.permutation(self.truth), ranks) for _ in range(NULL_DRAWS)
        ]
        spread = metrics.auc_null_sd(ones, len(self.truth) - ones)
        mean = float(np.mean(drawn))
        figure = Interval(value=mean, low=mean - 2 * spread, high=mean + 2 * spread)
        return figure, abs(mean - 0.5) <= NULL_SDS * spread / NULL_DRAWS**0.5

    def per_record(self, guess: Array) -> dict[str, NDArray[Any]]:
        """Return the score and the truth of every target."""
        return {"score": np.asarray(guess, np.float64), "truth": self.truth}


Outcome = Callable[[Any, Any], Array]


@dataclass(frozen=True)
class OutcomeGame(Game):
    """A game that compares a guess with the truth, target by target.

    truth    one entry per target
    outcome  (guess, truth) to a number per target, 0 for nothing, 1 for all
    prepare  the part of the outcome that depends on the guess alone: `outcome` gets what it returns
    """

    truth: NDArray[Any]
    outcome: Outcome
    prior_guess: Array
    prepare: Callable[[Array], Array] = np.asarray

    @property
    def without_run(self) -> Array | None:
        """Return the guess of the prior."""
        return self.prior_guess

    def measure(self, guess: Array) -> Interval:
        """Return the mean outcome of the guess, with its interval."""
        self.check(guess)
        return _mean_interval(self._target_outcomes(guess, self.truth))

    def prior(self, guess: Array) -> Interval:
        """Return the mean outcome of the prior's guess, with its interval."""
        return _mean_interval(self._target_outcomes(self.prior_guess, self.truth))

    def gain(self, guess: Array) -> Interval:
        """Return the mean over the targets of the outcome minus the prior's outcome."""
        return _mean_interval(self.gains(guess))

    def gains(self, guess: Array, truth: NDArray[Any] | None = None) -> Array:
        """Return the gain over the prior target by target, against this truth or another."""
        asked = self.truth if truth is None else truth
        return self._target_outcomes(guess, asked) - self._target_outcomes(self.prior_guess, asked)

    def null(self, guess: Array, rng: np.random.Generator) -> tuple[Interval, bool]:
        """Return the outcome against permuted truth, and whether it is at chance.

        It is at chance if a guess of somebody else's secret gains nothing over the prior.
        """
        means, gains, lucks = [], [], []
        own, prior = self.prepare(guess), self.prepare(self.prior_guess)
        for _ in range(NULL_DRAWS):
            shuffled = somebody_elses(self.truth, rng)
            outcomes = self._prepared_outcomes(own, shuffled)
            found = outcomes - self._prepared_outcomes(prior, shuffled)
            means.append(outcomes.mean())
            gains.append(found.mean())
            lucks.append(found.std() / len(found) ** 0.5)
        of_draws = float(np.std(gains)) / NULL_DRAWS**0.5
        spread = NULL_SDS * math.hypot(of_draws, float(np.mean(lucks)))
        low, high = np.quantile(means, [0.025, 0.975])
        figure = Interval(value=float(np.mean(means)), low=float(low), high=float(high))
        return figure, float(np.mean(gains)) <= spread + 1e-9

    def per_record(self, guess: Array) -> dict[str, NDArray[Any]]:
        """Return the outcome of every target."""
        return {"outcome": self._target_outcomes(guess, self.truth)}

    def _target_outcomes(self, guess: Array, truth: Any) -> Array:
        return self._prepared_outcomes(self.prepare(guess), truth)

    def _prepared_outcomes(self, prepared: Array, truth: Any) -> Array:
        found = np.asarray(self.outcome(prepared, truth), np.float64)
        if found.shape != (len(truth),) or found.min() < 0 or found.max() > 1 + 1e-9:
            raise ValueError(f"{self.metric}: outcomes must be one per target, within 0 and 1")
        return found


def _mean_interval(values: Array) -> Interval:
    return metrics.bootstrap_mean(values, 0)


def somebody_elses(truth: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Return the truth, permuted so that no target keeps its own."""
    order = rng.permutation(len(truth))
    moved = truth.copy()
    moved[order] = truth[np.roll(order, 1)]
    return moved


def choose_targets(
    ids: NDArray[np.int64], at_most: int, rng: np.random.Generator, wanted: int = 2
) -> NDArray[np.int64]:
    """Return a random choice in random order. Raise CannotAttack if there are too few targets."""
    if len(ids) < wanted:
        raise CannotAttack(f"{len(ids)} targets; at least {wanted} are needed")
    return rng.permutation(ids)[:at_most]


def choose_victim(truth: Truth, adversary: Adversary) -> int:
    """Return the client that a game is about: large enough to tell something, small enough to play.

    That is the largest client of at most VICTIM_NODES nodes, or the smallest of all. It is never a
    colluder.
    """
    sizes = {
        k: int(size)
        for k, size in enumerate(truth.experiment.partition.sizes)
        if k not in adversary.clients and size
    }
    if not sizes:
        raise CannotAttack("no client is left to attack: all collude, or hold nothing")
    fitting = [k for k, size in sizes.items() if size <= VICTIM_NODES]
    return max(fitting, key=lambda k: sizes[k]) if fitting else min(sizes, key=lambda k: sizes[k])


def other_nodes(truth: Truth, client: int) -> NDArray[np.int64]:
    """Return the nodes that somebody holds and this client does not."""
    held = truth.held_nodes
    own = truth.experiment.shards[client].node_ids.numpy()
    found: NDArray[np.int64] = numbers_except(held, own)
    return found


def asked_as(game: G, question: type[Question]) -> G:
    """Return the game with the same targets under a question that extends its own."""
    own = {part.name: getattr(game.question, part.name) for part in fields(game.question)}
    return replace(game, question=question(**own))
