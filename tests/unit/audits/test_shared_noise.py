"""All targets of a sum see one draw of its noise: intervals say so, and equals are not ranked."""

from __future__ import annotations

import numpy as np
import pytest

from attacks.base import Array
from attacks.questions import SumQuestion
from attacks.sums import likelihood_ratios
from audits.closed_form import gain_of_distance
from audits.games.base import BinaryGame
from audits.games.shared_noise import ShownNoise, read_noise, shared_sd, told_alone
from audits.games.sums import SumGame

KINDS = np.eye(6)


def sum_of(rng: np.random.Generator, count: int = 80) -> tuple[np.ndarray, Array, Array]:
    """Members and others of unlike kinds, and of sizes of their own; what each moves a sum by."""
    is_member = np.arange(count) % 2
    kind = np.where(rng.random(count) < 0.5, is_member, rng.integers(6, size=count))
    moves = KINDS[kind] * rng.uniform(0.5, 1.5, (count, 1))
    total = (is_member[:, None] * moves).sum(0)
    return is_member, moves, total - is_member[:, None] * moves


def leaks(made: type[BinaryGame], noise_sd: float, draws: int = 60) -> float:
    """The share of noise draws under which the interval of the gain lies above 0."""
    rng, leak_count = np.random.default_rng(0), 0
    for _ in range(draws):
        is_member, moves, without = sum_of(rng)
        seen = (is_member[:, None] * moves).sum(0) + noise_sd * rng.standard_normal(6)
        more = shared_sd(is_member, moves, rng) if made is SumGame else 0.0
        targets = SumQuestion(ids=np.arange(len(is_member)), moves=moves, sum_without=without)
        game = made(targets, "AUC", "node", is_member, shared_sd=more)
        leak_count += game.gain(likelihood_ratios(seen, without, moves)).low > 0
    return leak_count / draws


def test_noise_that_hides_everybody_is_no_leak_whatever_its_one_draw_is() -> None:
    assert leaks(BinaryGame, 300) > 0.15  # as if every target had noise of its own
    assert leaks(SumGame, 300) <= 0.05


def test_without_noise_every_draw_is_a_leak() -> None:
    assert leaks(SumGame, 0) == 1


@pytest.mark.parametrize(("noise_sd", "low", "high"), [(1e4, 0.5, 0.5), (0.0, 1.0, 1.0)])
def test_who_moves_a_sum_alike_is_not_ranked_by_the_noise_they_share(
    noise_sd: float, low: float, high: float
) -> None:
    rng, is_member = np.random.default_rng(1), np.arange(40) % 2
    moves = np.ones((40, 5))
    total = (is_member[:, None] * moves).sum(0)
    without = total - is_member[:, None] * moves
    scores = likelihood_ratios(total + noise_sd * rng.standard_normal(5), without, moves)
    targets = SumQuestion(ids=np.arange(40), moves=moves, sum_without=without)
    assert BinaryGame(targets, "AUC", "node", is_member).measure(scores).value == 1
    assert low <= SumGame(targets, "AUC", "node", is_member).measure(scores).value <= high


def test_targets_that_move_a_sum_each_in_its_way_are_ranked_as_before() -> None:
    rng = np.random.default_rng(2)
    scores, moves = rng.standard_normal(30), rng.standard_normal((30, 4))
    assert (told_alone(scores, moves) == scores).all()
    assert (told_alone(scores, np.zeros((30, 4))) == scores).all()


def test_moves_that_have_nothing_in_common_share_no_noise() -> None:
    so = np.arange(60) % 2
    assert shared_sd(so, np.eye(60), np.random.default_rng(0)) < 0.04


# ----------------------------------------------------------------- moves that are nearly parallel

TARGETS, NUMBERS, TRUE_SD = 400, 100, 4.0


def parallel_moves(spread: float) -> Array:
    """Moves of length 1 along one of three directions, each with a little of its own."""
    rng = np.random.default_rng(3)
    kinds = np.eye(NUMBERS)[rng.choice(3, TARGETS, p=[0.7, 0.2, 0.1])]
    moves = kinds + spread * rng.standard_normal((TARGETS, NUMBERS)) / NUMBERS**0.5
    rows: Array = moves / np.linalg.norm(moves, axis=1, keepdims=True)
    return rows


def play_draw(moves: Array, sd: float, seed: int) -> tuple[SumGame, Array]:
    """A game on a sum with noise of this size, and the scores of the best test."""
    is_member = np.arange(len(moves)) % 2
    total = (is_member[:, None] * moves).sum(0)
    without = total - is_member[:, None] * moves
    seen = total + sd * np.random.default_rng(seed).standard_normal(moves.shape[1])
    targets = SumQuestion(ids=np.arange(len(is_member)), moves=moves, sum_without=without)
    more = shared_sd(is_member, moves, np.random.default_rng(0))
    game = SumGame(targets, "AUC", "node", is_member, shared_sd=more)
    return game, likelihood_ratios(seen, without, moves)


def bound_of(moves: Array) -> float:
    """The gain that the law of the noise allows."""
    return float(gain_of_distance(np.linalg.norm(moves, axis=1) / TRUE_SD).max())


def play_draws(spread: float, sd: float, draws: int = 20) -> tuple[Array, Array, Array]:
    """Values, lower ends and sure gains of that many draws of the noise."""
    moves = parallel_moves(spread)
    games = [play_draw(moves, sd, seed) for seed in range(draws)]
    gains = [game.gain(guess) for game, guess in games]
    sure = [game.sure_gain(guess) for game, guess in games]
    return np.array([g.value for g in gains]), np.array([g.low for g in gains]), np.array(sure)


@pytest.mark.parametrize("spread", [1e-3, 0.3, 1.0])
def test_lower_end_never_exceeds_the_law_over_twenty_draws(spread: float) -> None:
    """The order of nearly parallel moves gains more than the law allows for each target alone."""
    values, lows, sure = play_draws(spread, TRUE_SD)
    bound = bound_of(parallel_moves(spread))
    assert values.mean() > bound * (1.2 if spread < 1 else 1.0)
    assert (lows <= bound).all()
    assert (sure <= bound).all()


def test_half_the_noise_is_found_in_most_draws() -> None:
    bound = bound_of(parallel_moves(1.0))
    _, lows, sure = play_draws(1.0, TRUE_SD / 2)
    assert (lows > bound).mean() >= 0.8
    assert (sure > bound).mean() >= 0.5
    assert (play_draws(1.0, 0.0, 5)[2] > 5 * bound).all()


def test_shown_noise_has_the_size_of_the_drawn_noise() -> None:
    game, scores = play_draw(parallel_moves(0.5), 3.0, 7)
    assert isinstance(game.question, SumQuestion)
    shown = read_noise(scores, game.truth, game.question.moves)
    assert shown is not None
    assert shown.rank == NUMBERS
    assert (shown.square / shown.rank) ** 0.5 == pytest.approx(3.0, rel=0.25)
    assert read_noise(scores**3, game.truth, game.question.moves) is None
    assert read_noise(scores, game.truth, 0 * game.question.moves) is None


@pytest.mark.parametrize("rank", [1, 5, 100])
def test_largest_noise_covers_the_drawn_one(rank: int) -> None:
    rng = np.random.default_rng(rank)
    squares = np.square(rng.standard_normal((4000, rank))).sum(1)
    too_small = [ShownNoise(square, rank).largest_sd(tail=0.01) < 1 for square in squares]
    assert np.mean(too_small) == pytest.approx(0.01, abs=0.006)
