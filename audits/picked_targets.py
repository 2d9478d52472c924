"""How many targets a guess picks out: those above a score that few others reach."""

from __future__ import annotations

import math

import numpy as np

from attacks.base import Array
from audits.games.base import BinaryGame, Game
from audits.metrics import LEAST_FALSE_POSITIVES

FALSE_ALARMS = (0.05, 0.1, 0.2)


def picked_targets(game: Game, guess: Array) -> dict[str, float]:
    """Return counts at the lowest rate of false alarms that the number of other targets can show.

    Only games about single nodes are counted.

    picked_of  targets of which the game's question is true; picked  those above the threshold
    """
    if not isinstance(game, BinaryGame) or "node" not in game.unit:
        return {}
    if game.question.ids.ndim != 1:
        return {}
    ones, others = guess[game.truth == 1], np.sort(guess[game.truth == 0])[::-1]
    for rate in FALSE_ALARMS:
        allowed = rate * len(others)
        if allowed >= LEAST_FALSE_POSITIVES - 1e-9:
            threshold = others[min(math.floor(allowed + 1e-9), len(others) - 1)]
            count = float((ones > threshold).sum())
            return {"picked": count, "picked_of": float(len(ones)), "picked_false_alarms": rate}
    return {}
