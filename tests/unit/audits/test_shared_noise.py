"""All targets of a sum see one draw of its noise: intervals say so, and equals are not ranked."""

from __future__ import annotations

import numpy as np
import pytest

from attacks.base import Array
from attacks.questions import SumQuestion
from attacks.sums import likelihood_ratios
from audits.games.base import BinaryGame
from audits.games.sums import SumGame, shared_sd, told_alone

KINDS = np.eye(6)


def sum_of(rng: np.random.Generator, count: int = 80) -> tuple[np.ndarray, Array, Array]:
    """Members and others of unlike kinds, and of sizes of their own; what each moves a sum by."""
    so = np.arange(count) % 2
    kind = np.where(rng.random(count) < 0.5, so, rng.integers(6, size=count))
    moves = KINDS[kind] * rng.uniform(0.5, 1.5, (count, 1))
    total = (so[:, None] * moves).sum(0)
    return so, moves, total - so[:, None] * moves


def leaks(made: type[BinaryGame], noise_sd: float, draws: int = 60) -> float:
    """The share of noise draws under which the interval of the gain lies above 0."""
    rng, found = np.random.default_rng(0), 0
    for _ in range(draws):
        so, moves, without = sum_of(rng)
        seen = (so[:, None] * moves).sum(0) + noise_sd * rng.standard_normal(6)
        more = shared_sd(so, moves, rng) if made is SumGame else 0.0
        targets = SumQuestion(ids=np.arange(len(so)), moves=moves, sum_without=without)
        game = made(targets, "AUC", "node", so, shared_sd=more)
        found += game.gain(likelihood_ratios(seen, without, moves)).low > 0
    return found / draws


def test_noise_that_hides_everybody_is_no_leak_whatever_its_one_draw_is() -> None:
    assert leaks(BinaryGame, 300) > 0.15  # as if every target had noise of its own
    assert leaks(SumGame, 300) <= 0.05


def test_without_noise_every_draw_is_a_leak() -> None:
    assert leaks(SumGame, 0) == 1


@pytest.mark.parametrize(("noise_sd", "low", "high"), [(1e4, 0.5, 0.5), (0.0, 1.0, 1.0)])
def test_who_moves_a_sum_alike_is_not_ranked_by_the_noise_they_share(
    noise_sd: float, low: float, high: float
) -> None:
    rng, so = np.random.default_rng(1), np.arange(40) % 2
    moves = np.ones((40, 5))
    total = (so[:, None] * moves).sum(0)
    without = total - so[:, None] * moves
    scores = likelihood_ratios(total + noise_sd * rng.standard_normal(5), without, moves)
    targets = SumQuestion(ids=np.arange(40), moves=moves, sum_without=without)
    assert BinaryGame(targets, "AUC", "node", so).measure(scores).value == 1
    assert low <= SumGame(targets, "AUC", "node", so).measure(scores).value <= high


def test_targets_that_move_a_sum_each_in_its_way_are_ranked_as_before() -> None:
    rng = np.random.default_rng(2)
    scores, moves = rng.standard_normal(30), rng.standard_normal((30, 4))
    assert (told_alone(scores, moves) == scores).all()
    assert (told_alone(scores, np.zeros((30, 4))) == scores).all()


def test_moves_that_have_nothing_in_common_share_no_noise() -> None:
    so = np.arange(60) % 2
    assert shared_sd(so, np.eye(60), np.random.default_rng(0)) < 0.04
