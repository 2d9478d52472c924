"""The textbook game against every field: a canary as large as the clip, and one far above it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from audits.empirical_epsilon import EpsilonBound, GaussianBound, epsilon_of_mu, mu_of_epsilon
from audits.mechanisms.effort import rounds_for, trials_for
from audits.mechanisms.message import AuditedMessage, Floats, Slot
from audits.mechanisms.results import MechanismResult
from audits.uploads import Host

LOUDNESS = 1e4


def play_canary(message: AuditedMessage) -> list[MechanismResult]:
    """Scores are summed over the rounds; rounds that are not played are taken for like them."""
    host = message.host()
    rounds = rounds_for(host, message.shared_rounds, message.trials)
    slots, coins = message.slots(1), message.coins(message.trials)
    scores = _scores(host, slots, coins, rounds, 1.0)
    results = []
    for slot, score in zip(slots, scores, strict=True):
        found = message.bound(score, coins, float(len(rounds)))
        whole = slot.release.count
        gdp = _for_rounds(found, math.sqrt(whole / len(rounds)), message.policy.delta)
        results.append(
            message.result(
                "canary",
                slot.release,
                host,
                rounds=len(rounds),
                claimed_rounds=whole,
                gdp=gdp,
                cp=found.cp,
            )
        )
    return results


def play_loud(message: AuditedMessage) -> list[MechanismResult]:
    """Clipped before the noise, the loud canary is an ordinary one."""
    host = message.host()
    slots, coins = message.slots(1), message.coins(trials_for(host, message.trials // 5))
    bounds = [message.bound(s, coins, 1.0) for s in _scores(host, slots, coins, [1], LOUDNESS)]
    return [
        message.result("loud", slot.release, host, gdp=found.gdp, cp=found.cp)
        for slot, found in zip(slots, bounds, strict=True)
    ]


def _scores(
    host: Host, slots: list[Slot], coins: Floats, rounds: list[int], loudness: float
) -> list[Floats]:
    """Every field has its own game, in a slot of its own; they share the messages."""
    enrolled = host.enrol(len(coins))
    units = {slot.release.field: slot.canary(coins, loudness) for slot in slots}
    scores = [np.zeros(len(coins)) for _ in slots]
    for round in rounds:
        seen, _ = host.emit(units, enrolled, round)
        for score, slot in zip(scores, slots, strict=True):
            score += slot.score(seen[slot.release.field])
    return scores


def _for_rounds(found: GaussianBound, factor: float, delta: float) -> EpsilonBound:
    """The Gaussian bound for more rounds of this kind: mu grows with the root of their number."""
    if factor == 1:
        return found.gdp
    ceiling = epsilon_of_mu(factor * mu_of_epsilon(found.gdp.ceiling, delta), delta)
    return replace(found.gdp, epsilon=epsilon_of_mu(factor * found.mu, delta), ceiling=ceiling)
