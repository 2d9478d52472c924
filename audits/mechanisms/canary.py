"""Games of one canary against the noise of uploads: the unit's own, a louder one, a node's.

The textbook game plays every field by itself. `measure_shape` takes the size of the noise in arrays
of the planned shape, which the games cut short. `play_moved` plays a node: where a method proves
how far one node moves its messages, noise is sized for that distance and not for the clip, so that
a canary moves every release by just that, as often as a node has holders.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from audits.empirical_epsilon import LARGEST_MU, EpsilonBound, GaussianBound, epsilon_of_mu
from audits.laws import chi2_quantile
from audits.mechanisms.effort import canary_trials, rounds_for, trials_for, trials_in_full_shape
from audits.mechanisms.message import AuditedMessage, Floats, Slot
from audits.mechanisms.results import MechanismResult
from audits.uploads import Host
from securefg.privacy.accountants import claim
from securefg.privacy.influence import NOTHING
from securefg.privacy.ledger import Mechanism

LOUDNESS = 1e4
BENEATH = 1e3
"""So many canaries long is the value that a node's canary lies on, as far as the clip allows."""


def play_canary(message: AuditedMessage) -> list[MechanismResult]:
    """Play the textbook game for every field and return the results.

    Scores are summed over the rounds. Rounds that are not played are taken to be like those played.
    """
    host = message.make_host()
    trials = canary_trials(host, message.trials)
    rounds = rounds_for(host, message.shared_rounds, trials)
    slots, coins = message.claimed_slots(1), message.trial_coins(trials)
    scores = _field_scores(host, slots, coins, rounds, 1.0)
    results = []
    for slot, score in zip(slots, scores, strict=True):
        score_bound = message.score_bound(score, coins, float(len(rounds)))
        whole = slot.release.count if message.is_gaussian else len(rounds)
        gdp = _for_rounds(score_bound, math.sqrt(whole / len(rounds)), message.policy.delta)
        results.append(
            message.game_result(
                "canary",
                slot.release,
                host,
                rounds=len(rounds),
                claimed_rounds=whole,
                gdp=gdp,
                cp=score_bound.cp,
            )
        )
    return results


def play_loud(message: AuditedMessage) -> list[MechanismResult]:
    """Play the game of a loud canary and return the results.

    Clipped before the noise, the loud canary is an ordinary canary. A node's canary keeps its size
    and lies on top of a large value, because noise must not depend on the value.
    """
    host = message.make_host()
    slots, coins = (
        message.claimed_slots(1),
        message.trial_coins(trials_for(host, message.trials // 5)),
    )
    rules = [message.rule_of(slot.release) for slot in slots]
    sized = all(rule.moved_l2 is not None for rule in rules)
    below = [
        min(BENEATH, max(0.0, rule.clip_l2 / slot.size - 1)) if sized else 0.0
        for rule, slot in zip(rules, slots, strict=True)
    ]
    scores = _field_scores(host, slots, coins, [1], 1.0 if sized else LOUDNESS, below)
    bounds = [message.score_bound(score, coins, 1.0) for score in scores]
    return [
        message.game_result("loud", slot.release, host, gdp=found.gdp, cp=found.cp)
        for slot, found in zip(slots, bounds, strict=True)
    ]


def _field_scores(
    host: Host,
    slots: list[Slot],
    coins: Floats,
    rounds: list[int],
    loudness: float,
    below: Sequence[float] = (),
) -> list[Floats]:
    """Return the scores of every field's own game. Each field has a slot of its own, and all share
    the messages.

    below  how long the value under each canary is, in canaries
    """
    enrolled = host.enrol_clients(len(coins))
    below = below or [0.0] * len(slots)
    units = {
        slot.release.field: slot.canary_rows(coins + under, loudness)
        for slot, under in zip(slots, below, strict=True)
    }
    scores = [np.zeros(len(coins)) for _ in slots]
    for round in rounds:
        seen, _ = host.emit_views(units, enrolled, round)
        for score, slot, under in zip(scores, slots, below, strict=True):
            score += slot.score(seen[slot.release.field]) - under
    return scores


def _for_rounds(round_bound: GaussianBound, factor: float, delta: float) -> EpsilonBound:
    """Return the Gaussian bound for more rounds of this kind. mu grows with the root of their
    number."""
    if factor == 1:
        return round_bound.gdp
    ceiling = epsilon_of_mu(factor * LARGEST_MU, delta)
    return replace(
        round_bound.gdp, epsilon=epsilon_of_mu(factor * round_bound.mu, delta), ceiling=ceiling
    )


def measure_shape(message: AuditedMessage) -> list[MechanismResult]:
    """Measure the noise at the planned shape and return a result per field.

    Every number of a field's noise is a draw of the same law there, so the standard deviation of
    Gaussian noise gives mu = S / sd for the unit's canary. The standard deviation of other noise
    gives no epsilon, and `play_whole` tests its size.
    """
    if not message.is_gaussian:
        return []
    host = message.make_host(rows=None)
    seen, _ = host.emit_views({}, host.enrol_clients(trials_in_full_shape(host)), 1)
    results = []
    for release in message.claimed:
        distance = message.game_distance(release)
        bound = _noise_bound(seen[release.field], distance, message.policy.delta, 1 - message.level)
        results.append(message.game_result("shape", release, host, gdp=bound))
    return results


def _noise_bound(noise: Floats, distance: float, delta: float, confidence: float) -> EpsilonBound:
    """Return the bound from mu >= distance / (the upper end of the noise's standard deviation)."""
    count = noise.size
    upper = float(noise.std()) * math.sqrt(count / chi2_quantile(1 - confidence, count - 1))
    mu = min(LARGEST_MU, distance / upper) if upper > 0 else LARGEST_MU
    ceiling = epsilon_of_mu(LARGEST_MU, delta)
    return EpsilonBound(epsilon_of_mu(mu, delta), delta, confidence, "gdp", ceiling, count)


def play_moved(messages: Sequence[AuditedMessage]) -> list[MechanismResult]:
    """Play one game over all messages. Return no result if some rule is sized for no distance."""
    moved_messages = [
        m for m in messages if all(m.rule_of(r).moved_l2 is not None for r in m.claimed)
    ]
    if not moved_messages or len(moved_messages) < len(messages):
        return []
    policy, hosts = moved_messages[0].policy, [message.make_host() for message in moved_messages]
    trials = min(trials_for(host, moved_messages[0].trials) for host in hosts)
    coins = (np.arange(trials) % 2 == 0).astype(np.float64)
    profile: dict[Mechanism, int] = {}
    fields: list[str] = []
    score, shift = np.zeros(trials), 0.0
    for message, host in zip(moved_messages, hosts, strict=True):
        for release in message.claimed:
            if release.influence(policy.unit) == NOTHING:
                continue
            (slot,) = message.slots_of(release, 1)
            seen, _ = host.emit_views(
                {release.field: slot.canary_rows(coins)}, host.enrol_clients(trials), 1
            )
            found = slot.score(seen[release.field])
            # The likelihood ratio of Gaussians: weigh every release by what it shows.
            weight = _score_weight(found, coins)
            score, shift = score + weight * found, shift + weight
            fact = message.booked_fact(release, host)
            profile[fact] = profile.get(fact, 0) + 1
            fields.append(release.name)
    if not fields:
        return []
    bound = moved_messages[0].score_bound(score, coins, shift)
    return [
        MechanismResult(
            field=", ".join(fields),
            check="moved",
            unit=policy.unit,
            rule=", ".join(sorted({m.rule_of(r).name for m in moved_messages for r in m.claimed})),
            rounds=1,
            planned=max(release.count for message in moved_messages for release in message.claimed),
            claimed=claim([profile], policy.unit, policy.delta).epsilon,
            gdp=bound.gdp,
            cp=bound.cp,
        )
    ]


def _score_weight(score: Floats, coins: Floats) -> float:
    """Return 1 / variance, from the trials without a canary."""
    return 1 / max(float(score[coins == 0].var()), math.ulp(1.0))
