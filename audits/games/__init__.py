"""The games: one file each; a file's `make` draws the game of its name."""

from __future__ import annotations

import pkgutil
from types import ModuleType
from typing import Final, Protocol, get_type_hints

import numpy as np

from audits.foreign import ForeignTruth
from audits.games.base import Game, NotAsked
from audits.truth import Truth
from securefg.foundation.errors import ConfigError
from securefg.foundation.extensions import find_module
from securefg.protocol.transcript import Adversary

GROUP: Final = "securefg.games"


class Make(Protocol):
    """Draws a game's targets from the truth, with the adversary's own data left out."""

    def __call__(
        self, truth: Truth | ForeignTruth, adversary: Adversary, rng: np.random.Generator
    ) -> Game: ...


def shipped() -> dict[str, str]:
    names = [m.name for m in pkgutil.iter_modules(__path__)]
    shared = ("base", "known_others", "kriging", "link_prior", "shared_noise", "victims")
    return {n: f"{__name__}.{n}" for n in sorted(names) if n not in shared}


def game_module(name: str) -> ModuleType:
    """The module behind a game's name."""
    return find_module("game", name, shipped(), GROUP)


def has_closed_form(name: str) -> bool:
    """Return whether the law of the noise on a sum answers this game."""
    return bool(getattr(game_module(name), "CLOSED_FORM", False))


def make_game(
    name: str, truth: Truth | ForeignTruth, adversary: Adversary, rng: np.random.Generator
) -> Game:
    """The game of that name, or of that module where the name is a path."""
    make: Make | None = getattr(game_module(name), "make", None)
    if make is None:
        raise ConfigError(f"game: module {name!r} has no `make`")
    if isinstance(truth, ForeignTruth) and get_type_hints(make).get("truth") is Truth:
        raise NotAsked("its targets are drawn from a graph, which another framework's run has not")
    return make(truth, adversary, rng)
