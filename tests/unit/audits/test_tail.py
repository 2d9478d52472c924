"""The few most exposed targets are seen where the mean gain is not."""

from __future__ import annotations

import numpy as np
import pytest

from attacks.questions import Question
from audits.findings.record import Verdict
from audits.games.base import BinaryGame, OutcomeGame
from audits.groups import tail_chance
from audits.verdicts import STANDS_OUT, Evidence, judge_gain
from securefg.foundation.interval import Interval

WORKS = Interval(value=0.4, low=0.3, high=0.5)


def membership(rng: np.random.Generator, exposed: int) -> tuple[BinaryGame, np.ndarray]:
    """A thousand members and as many others, of whom so many members are unprotected."""
    so = rng.permutation(np.repeat([1, 0], 1000))
    scores = rng.standard_normal(2000)
    scores[np.flatnonzero(so)[:exposed]] = 100 + rng.random(exposed)
    return BinaryGame(Question(ids=np.arange(2000)), "AUC", "node", so), scores


def verdict_of(game: BinaryGame, scores: np.ndarray, tail: float | None) -> Verdict:
    gain = game.gain(scores)
    found = Evidence(game.measure(scores), gain, True, WORKS, False, 0.1, smallest=0.05, tail=tail)
    return judge_gain(found)[0]


def test_tail_chance_ten_unprotected_of_a_thousand_are_not_undetected() -> None:
    rng = np.random.default_rng(1)
    game, scores = membership(rng, 10)
    tail = tail_chance(game, scores, rng)
    assert tail is not None
    assert tail < STANDS_OUT
    assert verdict_of(game, scores, None) is Verdict.NOT_DETECTED
    assert verdict_of(game, scores, tail) is Verdict.INCONCLUSIVE


def test_tail_chance_of_protected_people_is_small_as_rarely_as_it_says() -> None:
    rng = np.random.default_rng(2)
    found = [tail_chance(*membership(rng, 0), rng) for _ in range(400)]
    assert sum(one is not None and one < STANDS_OUT for one in found) <= 4
    assert sum(one is not None and one < 0.2 for one in found) <= 100


def test_tail_chance_is_over_what_the_prior_finds() -> None:
    """Ten whom the prior names already are no news."""
    rng = np.random.default_rng(3)
    game, scores = membership(rng, 10)
    known = BinaryGame(game.question, "AUC", "node", game.truth, scores)
    tail = tail_chance(known, scores, rng)
    assert tail is not None
    assert tail > STANDS_OUT


def test_tail_chance_rows_found_exactly_stand_out() -> None:
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((500, 30))
    guess = rng.standard_normal((500, 30))
    game = OutcomeGame(
        Question(ids=np.arange(500)), "cosine", "row", rows, _cosine, np.ones((500, 30))
    )
    silent = tail_chance(game, guess, np.random.default_rng(0))
    guess[:10] = rows[:10]
    exposed = tail_chance(game, guess, np.random.default_rng(0))
    assert silent is not None
    assert exposed is not None
    assert exposed < STANDS_OUT < silent


def test_tail_chance_of_few_targets_or_yes_and_no_is_not_known() -> None:
    rng = np.random.default_rng(5)
    few = BinaryGame(Question(ids=np.arange(40)), "AUC", "node", np.arange(40) % 2)
    assert tail_chance(few, rng.random(40), rng) is None
    labels = rng.integers(2, size=500)
    game = OutcomeGame(Question(ids=np.arange(500)), "share", "node", labels, np.equal, labels * 0)
    assert tail_chance(game, labels, rng) is None


def _cosine(guess: np.ndarray, truth: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(guess, axis=1) * np.linalg.norm(truth, axis=1)
    return ((guess * truth).sum(1) / lengths).clip(0, 1)


@pytest.mark.parametrize("exposed", [10, 20])
def test_tail_chance_more_exposed_people_are_no_less_visible(exposed: int) -> None:
    rng = np.random.default_rng(6)
    tail = tail_chance(*membership(rng, exposed), rng)
    assert tail is not None
    assert tail < STANDS_OUT
