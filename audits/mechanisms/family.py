"""The family of all checks of an audit: a violation is one at the family's level, found twice.

Thirteen checks at 95 % each would accuse one honest run in two; an audit accuses one in a thousand.
All games are played: against messages, private training and masks. Where any shows more than is
claimed, all are played again on fresh trials, with half of the level shared among them, and what is
not found again is not a violation. Checks of what cannot be drawn again have the other half: a
run's canaries, and its recorded uploads, each at a level so small that once is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from audits.mechanisms.results import Result

FAMILY_LEVEL: Final = 1e-3
PLAYED_AGAIN: Final = FAMILY_LEVEL / 2
CANARIES: Final = FAMILY_LEVEL / 4
RECORDED: Final = 1e-6
"""Of one field's uploads; a quarter of the family's level is enough for 250 fields."""

Play = Callable[[int, float], list[Result]]
"""All games, by the seed of their trials and the confidence of each."""


def play_family(play: Play, seed: int, confidence: float = 0.95) -> list[Result]:
    first = play(seed, confidence)
    if not any(result.suspected for result in first):
        return first
    again = play(seed + 1_000_003, 1 - PLAYED_AGAIN / len(first))
    if len(again) != len(first):  # a mechanism that changes from play to play is not sound either
        return first
    return [new if old.suspected else old for old, new in zip(first, again, strict=True)]
