"""A question has one game, and its game asks that question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pytest

from attacks.questions import HeldNodes, NodeFeatures, Question, RecordEntries
from audits.games import load_game, make_game
from audits.games.base import GAMES, BinaryGame, asked_as, plays
from audits.truth import Truth
from securefg.foundation.errors import ConfigError
from securefg.protocol.transcript import Adversary


@dataclass(frozen=True)
class Asked(Question, name="asked"):
    """A question that no shipped game plays."""


@dataclass(frozen=True)
class Other(Question, name="other"):
    """Another one."""


def game_about(question: Question) -> BinaryGame:
    return BinaryGame(question, "AUC", "node", np.arange(len(question.ids)) % 2)


def always(question: type[Question]) -> Callable[..., BinaryGame]:
    """Return a game that asks this question of two nodes."""

    def made(truth: object, adversary: object, rng: object) -> BinaryGame:
        return game_about(question(ids=np.arange(2)))

    return made


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[type[Question], object]:
    """The registry, of which nothing that a test adds is left."""
    load_game(HeldNodes)
    before = dict(GAMES)
    yield GAMES
    GAMES.clear()
    GAMES.update(before)


def made_game(question: type[Question]) -> BinaryGame:
    truth, server = cast(Truth, object()), Adversary("server")
    return cast(BinaryGame, make_game(question, truth, server, np.random.default_rng(0)))


@pytest.mark.usefixtures("registry")
def test_make_game_with_another_question_is_refused() -> None:
    plays(Asked)(always(Asked))
    assert isinstance(made_game(Asked).question, Asked)
    plays(Other)(always(Asked))
    with pytest.raises(ConfigError, match="found a question 'Asked'; expected 'Other'"):
        made_game(Other)


@pytest.mark.usefixtures("registry")
def test_plays_second_game_for_a_question_is_refused() -> None:
    def mine(truth: object, adversary: object, rng: object) -> BinaryGame:
        return game_about(HeldNodes(np.arange(2), np.arange(2), np.zeros((2, 1)), 0))

    with pytest.raises(ConfigError, match="found two for the question 'HeldNodes'"):
        plays(HeldNodes)(mine)
    assert load_game(HeldNodes).make is not mine


@pytest.mark.usefixtures("registry")
def test_plays_game_that_is_loaded_again_replaces_itself() -> None:
    first, again = always(Asked), always(Asked)
    plays(Asked)(first)
    plays(Asked)(again)
    assert load_game(Asked).make is again


def test_asked_as_keeps_every_part_of_the_question() -> None:
    ids, known = np.arange(2), np.ones((2, 3), np.float32)
    asked = NodeFeatures(ids, ids, known, 1, prior=np.ones(2), known_prior=np.zeros((2, 3)))
    game = asked_as(game_about(asked), RecordEntries)
    assert isinstance(game.question, RecordEntries)
    assert vars(game.question) == vars(asked)
    assert replace(game, question=asked).metric == game.metric


@pytest.mark.usefixtures("registry")
def test_make_game_that_returns_no_game_is_refused() -> None:
    plays(Asked)(cast(Callable[..., BinaryGame], lambda truth, adversary, rng: None))
    with pytest.raises(ConfigError, match="found NoneType; expected a BinaryGame or an Outcome"):
        made_game(Asked)
