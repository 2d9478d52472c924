"""The textbook game against every field: a canary as large as its unit, and one far louder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from audits.empirical_epsilon import LARGEST_MU, EpsilonBound, GaussianBound, epsilon_of_mu
from audits.mechanisms.effort import canary_trials, rounds_for, trials_for
from audits.mechanisms.message import AuditedMessage, Floats, Slot
from audits.mechanisms.results import MechanismResult
from audits.uploads import Host

LOUDNESS = 1e4
BENEATH = 1e3
"""So many canaries long is the value that a node's canary lies on, as far as the clip allows."""


def play_canary(message: AuditedMessage) -> list[MechanismResult]:
    """Scores are summed over the rounds; rounds that are not played are taken for like them."""
    host = message.host()
    trials = canary_trials(host, message.trials)
    rounds = rounds_for(host, message.shared_rounds, trials)
    slots, coins = message.slots(1), message.coins(trials)
    scores = _scores(host, slots, coins, rounds, 1.0)
    results = []
    for slot, score in zip(slots, scores, strict=True):
        found = message.bound(score, coins, float(len(rounds)))
        whole = slot.release.count if message.is_gaussian else len(rounds)
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
    """Clipped before the noise, the loud canary is an ordinary one. A node's canary stays as it is
    and lies on top of a large value: noise must not hang on it."""
    host = message.host()
    slots, coins = message.slots(1), message.coins(trials_for(host, message.trials // 5))
    rules = [message.rule(slot.release) for slot in slots]
    sized = all(rule.moved_l2 is not None for rule in rules)
    below = [
        min(BENEATH, max(0.0, rule.clip_l2 / slot.size - 1)) if sized else 0.0
        for rule, slot in zip(rules, slots, strict=True)
    ]
    scores = _scores(host, slots, coins, [1], 1.0 if sized else LOUDNESS, below)
    bounds = [message.bound(score, coins, 1.0) for score in scores]
    return [
        message.result("loud", slot.release, host, gdp=found.gdp, cp=found.cp)
        for slot, found in zip(slots, bounds, strict=True)
    ]


def _scores(
    host: Host,
    slots: list[Slot],
    coins: Floats,
    rounds: list[int],
    loudness: float,
    below: Sequence[float] = (),
) -> list[Floats]:
    """Every field has its own game, in a slot of its own; they share the messages.

    below  how long the value under each canary is, in canaries
    """
    enrolled = host.enrol(len(coins))
    below = below or [0.0] * len(slots)
    units = {
        slot.release.field: slot.canary(coins + under, loudness)
        for slot, under in zip(slots, below, strict=True)
    }
    scores = [np.zeros(len(coins)) for _ in slots]
    for round in rounds:
        seen, _ = host.emit(units, enrolled, round)
        for score, slot, under in zip(scores, slots, below, strict=True):
            score += slot.score(seen[slot.release.field]) - under
    return scores


def _for_rounds(found: GaussianBound, factor: float, delta: float) -> EpsilonBound:
    """The Gaussian bound for more rounds of this kind: mu grows with the root of their number."""
    if factor == 1:
        return found.gdp
    ceiling = epsilon_of_mu(factor * LARGEST_MU, delta)
    return replace(found.gdp, epsilon=epsilon_of_mu(factor * found.mu, delta), ceiling=ceiling)
