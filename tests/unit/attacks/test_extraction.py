"""A copy of the released model from answers: the more queries, the more alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attacks.base import CannotAttack
from attacks.models import COPY_RIDGES, EXTRACTION, ridge_copy
from attacks.questions import CopiedModel
from audits.blind import at_chance, blind_view
from audits.games import make_game
from audits.games.models import CopyGame
from audits.truth import Truth
from securefg.protocol.transcript import Adversary
from securefg.runs import runner
from tests import small

RNG = np.random.default_rng
ME, OUTSIDER = Adversary.parse("client:0"), Adversary.parse("outsider")


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    config = small.config(
        tmp_path_factory.mktemp("runs"),
        "data.csbm={task: dnc, num_nodes: 240, degree: 8, graph_signal: 2, mu: 6, "
        "num_features: 30}",
    )
    return Truth.of(runner.start(config).folder)


def game_of(truth: Truth, who: Adversary) -> CopyGame:
    game = make_game(CopiedModel, truth, who, RNG(0))
    assert isinstance(game, CopyGame)
    return replace(game, question=replace(game.question, prior=game.without_run))


def test_a_copy_says_what_the_model_says_and_meaningless_answers_make_none(truth: Truth) -> None:
    game, view = game_of(truth, OUTSIDER), truth.view(OUTSIDER)
    guess = EXTRACTION.run(view, game.question, RNG(0))
    assert game.gain(guess).low > EXTRACTION.floor
    assert game.null(guess, RNG(0))[1]
    told = game.extras(guess)
    assert told["alike_after_100_queries"] > told["alike_after_10_queries"]
    blind = EXTRACTION.run(blind_view(view, RNG(0)), game.question, RNG(0))
    assert at_chance(game.gain(blind))


def test_a_copy_is_made_of_the_answers_that_were_asked_for_alone(truth: Truth) -> None:
    game, view = game_of(truth, ME), truth.view(ME)
    assert game.question.queries is not None
    assert not np.isin(game.question.ids, game.question.queries).any()
    assert np.isin(game.question.queries, truth.experiment.shards[0].node_ids.numpy()).all()
    other = view.answers.clone()
    other[game.question.ids] = 0
    guesses = [
        EXTRACTION.run(replace(view, answers=a), game.question, RNG(0))
        for a in (view.answers, other)
    ]
    assert np.array_equal(*guesses)


def test_the_prior_of_a_client_is_no_worse_than_the_commonest_answer(truth: Truth) -> None:
    game = game_of(truth, ME)
    common = np.bincount(game.truth).max() / len(game.truth)
    assert game.prior(game.prior_guess).value >= common - 1e-9


def test_a_party_that_may_not_ask_makes_no_copy(truth: Truth) -> None:
    game = game_of(truth, OUTSIDER)
    targets = replace(game.question, queries=np.zeros(0, np.int64))
    with pytest.raises(CannotAttack, match="0 nodes to ask about"):
        EXTRACTION.run(truth.view(OUTSIDER), targets, RNG(0))


@pytest.mark.parametrize("count", [40, 9])
def test_ridge_copy_equals_plain_regression(count: int) -> None:
    rng = RNG(3)
    rows, wanted = rng.normal(size=(count, 12)), rng.normal(size=(5, 12))
    answers = rows @ rng.normal(size=(12, 3)) + 2 * rng.normal(size=(count, 3))
    guess, foreseen = ridge_copy(rows, answers, wanted)
    centred, level = rows - rows.mean(0), answers.mean(0)
    tried = []
    for ridge in COPY_RIDGES:
        gram = centred @ centred.T
        inverse = np.linalg.inv(gram + ridge * np.trace(gram) / count * np.eye(count))
        weights = inverse @ (answers - level)
        left_out = -weights / np.diag(inverse)[:, None] + answers
        plain = (wanted - rows.mean(0)) @ centred.T @ weights + level
        tried.append((float(np.square(left_out - answers).mean()), plain, left_out.argmax(1)))
    _, plain, left_out_class = min(tried, key=lambda one: one[0])
    assert np.allclose(guess, plain, atol=1e-6)
    assert np.array_equal(foreseen, left_out_class)


def test_ridge_copy_of_many_rows_needs_no_square_matrix() -> None:
    rng = RNG(4)
    rows, weights = rng.normal(size=(200_000, 3)), rng.normal(size=(3, 2))
    guess, _ = ridge_copy(rows, rows @ weights, rows[:7])  # 200,000 squared would be 320 GB
    assert np.allclose(guess, rows[:7] @ weights, atol=1e-2)
