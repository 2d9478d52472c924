"""The games by family. A game draws the targets of one type of question and scores a guess."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import get_type_hints

import numpy as np

from attacks.questions import Question
from audits.foreign import ForeignTruth
from audits.games.base import GAMES, Game, NotAsked, Played
from audits.truth import Truth
from securefg.foundation.errors import ConfigError
from securefg.foundation.extensions import find_module
from securefg.protocol.transcript import Adversary


@cache
def _load_shipped() -> None:
    """Import every family once. Each family registers its games (`plays`)."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def shipped_questions() -> dict[str, type[Question]]:
    """Return the questions that this package plays, by name."""
    _load_shipped()
    own = [
        question for question, game in GAMES.items() if game.make.__module__.startswith(__name__)
    ]
    return {question.name: question for question in sorted(own, key=lambda found: found.name)}


def load_game(question: type[Question]) -> Played:
    """Return the game that is played for a question. A question from outside names its module."""
    _load_shipped()
    if question not in GAMES and question.played_in:
        find_module("game", question.played_in, {}, "securefg.games")
    if question not in GAMES:
        where = question.played_in or "audits.games"
        raise ConfigError(
            f"game: found none for the question {question.__name__!r} in {where}; expected a "
            "function with @plays(...) (audits.games.base)"
        )
    return GAMES[question]


def has_closed_form(question: type[Question]) -> bool:
    """Return whether the law of the noise on a sum answers this question."""
    return load_game(question).closed_form


def is_of_recordings(question: type[Question]) -> bool:
    """Return whether the targets are drawn from recordings of other frameworks alone."""
    return get_type_hints(load_game(question).make).get("truth") is ForeignTruth


def make_game(
    question: type[Question],
    truth: Truth | ForeignTruth,
    adversary: Adversary,
    rng: np.random.Generator,
) -> Game:
    """Draw the targets from the truth, with the adversary's own data left out."""
    make = load_game(question).make
    if isinstance(truth, ForeignTruth) and get_type_hints(make).get("truth") is Truth:
        raise NotAsked("its targets are drawn from a graph, which another framework's run has not")
    if isinstance(truth, Truth) and is_of_recordings(question):
        raise NotAsked("its targets are drawn from a recording of another framework")
    game = make(truth, adversary, rng)
    if not isinstance(game, Game):
        raise ConfigError(
            f"game: {make.__module__}.{make.__qualname__}: found {type(game).__name__}; expected a "
            "BinaryGame or an OutcomeGame (audits.games.base)"
        )
    if not isinstance(game.question, question):
        raise ConfigError(
            f"game: {make.__module__}.{make.__qualname__}: found a question "
            f"{type(game.question).__name__!r}; expected {question.__name__!r}, which it plays"
        )
    return game
