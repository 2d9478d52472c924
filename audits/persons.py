"""How many persons a guess names: those above the score that few others reach."""

from __future__ import annotations

import math

import numpy as np

from attacks.base import Array
from audits.games.base import BinaryGame, Game
from audits.metrics import LEAST_FALSE_POSITIVES

FALSE_ALARMS = (0.05, 0.1, 0.2)


def named(game: Game, guess: Array) -> dict[str, float]:
    """Of games about nodes, at the lowest rate of false alarms that the number of others can show.

    named_of  persons of whom it is so; named  those of them above the threshold
    """
    if not isinstance(game, BinaryGame) or "node" not in game.unit:
        return {}
    if game.targets.ids.ndim != 1:
        return {}
    ones, others = guess[game.truth == 1], np.sort(guess[game.truth == 0])[::-1]
    for rate in FALSE_ALARMS:
        allowed = rate * len(others)
        if allowed >= LEAST_FALSE_POSITIVES - 1e-9:
            threshold = others[min(math.floor(allowed + 1e-9), len(others) - 1)]
            count = float((ones > threshold).sum())
            return {"named": count, "named_of": float(len(ones)), "named_false_alarms": rate}
    return {}
