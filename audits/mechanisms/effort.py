"""How much a game plays: as many rounds and trials as keep an audit to seconds."""

from __future__ import annotations

import numpy as np

from audits.uploads import Host

NUMBERS = 4 * 10**6
"""A game draws about so many noises at most; where all rounds would take more, some are played.
Known values show a claim to about 2 percent from 5 000 trials on, so that more buy little."""

LEAST_TRIALS = 2_000
"""A cohort of very many clients still plays so many, in one round."""


def canary_trials(host: Host, wanted: int) -> int:
    """Return an even number of trials: the number that was asked for, or as many as there is room
    for."""
    most = max(LEAST_TRIALS, NUMBERS // host.numbers_per_trial)
    return max(2, min(wanted, most) // 2 * 2)


def rounds_for(host: Host, last: int, trials: int) -> list[int]:
    """Return as many of the rounds 1 … last as this number of trials leaves room for."""
    return spread_rounds(last, max(1, NUMBERS // (trials * host.numbers_per_trial)))


def trials_for(host: Host, wanted: int, rounds: int = 1) -> int:
    """Return an even number of trials, so that both coins fall equally often, and never too few to
    show anything."""
    most = NUMBERS // (4 * rounds * host.numbers_per_trial)
    return max(400, min(wanted, most)) // 2 * 2


def trials_in_full_shape(host: Host) -> int:
    """Return a small number of arrays, because every number of an array counts there."""
    return min(1000, max(1, NUMBERS // (10 * host.numbers_per_trial)))


def spread_rounds(last: int, room: int) -> list[int]:
    """Return at most `room` rounds of 1 … last, the first and the last among them."""
    return [int(n) for n in np.unique(np.linspace(1, last, min(last, room)).round())]
