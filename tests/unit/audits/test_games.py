"""Games score a guess beside its prior and its null, and refuse a guess that is no guess."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attacks.questions import CopiedModel, Question
from audits import metrics
from audits.blind import at_chance
from audits.games.base import BinaryGame, OutcomeGame, somebody_elses
from audits.games.features import found_words, words_ranked
from audits.games.labels import LabelGame
from audits.games.models import CopyGame
from audits.games.samples import exact_share, share_within
from securefg.foundation.ranks import row_ranks


def binary(size: int, prior: np.ndarray | None = None) -> BinaryGame:
    truth = np.arange(size) % 2
    return BinaryGame(
        question=Question(ids=np.arange(size)),
        metric="AUC",
        unit="node",
        truth=truth,
        prior_scores=prior,
    )


def rows(size: int = 40, width: int = 12) -> OutcomeGame:
    truth = np.random.default_rng(1).random((size, width)) < 0.3
    return OutcomeGame(
        question=Question(ids=np.arange(size)),
        metric="words",
        unit="row",
        truth=truth,
        outcome=found_words,
        prior_guess=np.tile(truth.mean(0), (size, 1)),
    )


def test_a_perfect_guess_gains_half_over_chance() -> None:
    game = binary(60)
    found = game.gain(game.truth.astype(float))
    assert found.value == pytest.approx(0.5)
    assert found.low > 0


def test_the_gain_is_over_the_prior_not_over_chance() -> None:
    game = binary(200, prior=(np.arange(200) % 2).astype(float))
    assert game.gain(game.truth.astype(float)).value == pytest.approx(0.0)


def test_null_of_a_binary_game_is_at_chance() -> None:
    for seed in range(50):
        rng, game = np.random.default_rng(seed), binary(100)
        figure, at_chance = game.null(game.truth + rng.normal(size=100), rng)
        assert figure.low < 0.5 < figure.high, seed
        assert at_chance or abs(figure.value - 0.5) < 0.05, seed


def test_nulls_are_at_chance_in_all_but_the_expected_share() -> None:
    chance_flags = []
    for seed in range(200):
        rng, game = np.random.default_rng(seed), binary(60)
        chance_flags.append(game.null(rng.normal(size=60), rng)[1])
    assert np.mean(chance_flags) > 0.98


def test_right_guess_of_somebody_elses_row_gains_nothing() -> None:
    game = rows()
    for seed in range(50):
        _, at_chance = game.null(game.truth.astype(float), np.random.default_rng(seed))
        assert at_chance, seed


def test_nobody_keeps_its_own_truth_in_a_null() -> None:
    truth = np.arange(9)
    for seed in range(20):
        moved = somebody_elses(truth, np.random.default_rng(seed))
        assert sorted(moved) == list(truth)
        assert (moved != truth).all()


def test_a_guess_that_is_not_a_number_raises() -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        binary(4).measure(np.array([0.1, np.nan, 0.2, 0.3]))


def test_a_guess_for_other_targets_raises() -> None:
    with pytest.raises(ValueError, match="3 guesses for 4 targets"):
        binary(4).measure(np.zeros(3))


def test_an_outcome_in_percent_raises() -> None:
    game = rows()
    percent = OutcomeGame(
        question=game.question,
        metric="words",
        unit="row",
        truth=game.truth,
        outcome=lambda guess, truth: 100 * found_words(guess, truth),
        prior_guess=game.prior_guess,
    )
    with pytest.raises(ValueError, match="within 0 and 1"):
        percent.measure(game.truth.astype(float))


def test_words_are_found_by_rank_alone() -> None:
    truth = np.array([[1, 0, 1, 0], [0, 0, 0, 1]])
    ranks = row_ranks(np.array([[9.0, 1, 8, 2], [4, 3, 2, 1]]))
    assert words_ranked(ranks, truth).tolist() == [1.0, 0.0]


def test_exact_samples_are_counted_in_any_order() -> None:
    truth = np.array([[[1.0, 0, 1], [0, 1, 1]]])
    guess = np.array([[[0.0, 1, 1], [1, 0, 0]]])
    assert exact_share(guess, truth).tolist() == [0.5]


def test_a_sample_within_the_guessed_span_counts_whole() -> None:
    truth = np.array([[[3.0, 4, 0], [1, -1, 0]]])
    span = np.array([[[1.0, 0, 0], [0, 1, 0]]])
    assert share_within(span, truth) == pytest.approx(1.0)
    assert share_within(span[:, :1], truth)[0] == pytest.approx((0.6 + 0.5**0.5) / 2)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_gain_over_few_targets_is_seldom_found_where_there_is_none(size: int) -> None:
    rng, found = np.random.default_rng(size), 0
    for _ in range(400):
        found += metrics.bootstrap_mean(0.1 * rng.standard_normal(size), 0).low > 0
    assert found / 400 < 0.05


def test_five_labels_that_were_guessed_by_chance_are_no_gain() -> None:
    rng, trained, false_gains = np.random.default_rng(0), np.arange(80) < 5, 0
    for _ in range(400):
        game = LabelGame(Question(np.arange(80)), "-", "-", rng.integers(2, size=80), trained)
        false_gains += not at_chance(game.gain(rng.integers(2, size=80)))
    assert false_gains <= 2


def test_the_permuted_null_does_not_take_a_leak_off_the_page() -> None:
    """It is at chance by construction: hardly one honest attack in a thousand may fail it."""
    answers, failed = np.arange(100) % 3, 0
    targets = CopiedModel(
        ids=np.arange(100),
        known_ids=np.arange(100),
        known=np.zeros((100, 1), np.float32),
        edges=np.zeros((2, 0), np.int64),
        queries=np.arange(10),
    )
    game = CopyGame(
        targets, "-", "-", answers, lambda g, t: (g[:, -1] == t) * 1.0, answers[:, None]
    )
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        guess = np.where(rng.random(100) < 0.7, answers, rng.integers(3, size=100))[:, None]
        failed += not game.null(guess.astype(float), rng)[1]
    assert failed <= 2


def test_null_prepared_guess_equals_null_of_whole_outcome() -> None:
    whole, guess = rows(), np.random.default_rng(3).random((40, 12))
    parted = OutcomeGame(
        question=whole.question,
        metric=whole.metric,
        unit=whole.unit,
        truth=whole.truth,
        outcome=words_ranked,
        prior_guess=whole.prior_guess,
        prepare=row_ranks,
    )
    joined = replace(
        parted, outcome=lambda x, truth: words_ranked(row_ranks(x), truth), prepare=np.asarray
    )
    streams = (np.random.default_rng(5) for _ in "ab")
    assert parted.null(guess, next(streams)) == joined.null(guess, next(streams))
    assert parted.gain(guess) == joined.gain(guess)
