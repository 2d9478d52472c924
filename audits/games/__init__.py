"""The games: one file each; a file's `make` draws the game of its name."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any, Protocol

import numpy as np

from audits.foreign import ForeignTruth
from audits.games.base import Game
from audits.truth import Truth
from securefg.protocol.transcript import Adversary


class Make(Protocol):
    """Every game knows which kind of truth it is played on."""

    def __call__(self, truth: Any, adversary: Adversary, rng: np.random.Generator) -> Game: ...


def game_names() -> list[str]:
    names = [m.name for m in pkgutil.iter_modules(__path__)]
    return sorted(n for n in names if n not in ("base", "victims"))


def make_game(
    name: str, truth: Truth | ForeignTruth, adversary: Adversary, rng: np.random.Generator
) -> Game:
    """Draw a game's targets from the truth, with the adversary's own data left out."""
    make: Make = importlib.import_module(f"{__name__}.{name}").make
    return make(truth, adversary, rng)
