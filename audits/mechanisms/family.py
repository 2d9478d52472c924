"""The family of all checks of an audit: a violation is one at the family's level, found twice.

Thirteen checks at 95 % each would accuse one honest run in two; an audit accuses one in a thousand.
All checks are played; where any shows more than is claimed, all are played again on fresh trials,
with the level shared among them, and what is not found again is not a violation.
"""

from __future__ import annotations

from collections.abc import Callable

from audits.mechanisms.results import Result

FAMILY_LEVEL = 1e-3

Play = Callable[[int, float], list[Result]]
"""All checks, by the seed of their trials and the confidence of each."""


def play_family(play: Play, seed: int, confidence: float = 0.95) -> list[Result]:
    first = play(seed, confidence)
    suspected = [result.verdict == "VIOLATION" for result in first]
    if not any(suspected):
        return first
    again = play(seed + 1_000_003, 1 - FAMILY_LEVEL / len(first))
    if len(again) != len(first):  # a mechanism that changes from play to play is not sound either
        return first
    return [new if was else old for old, new, was in zip(first, again, suspected, strict=True)]
