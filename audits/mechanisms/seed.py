"""The game of seeds: noise that somebody can draw again protects nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from audits.empirical_epsilon import EpsilonBound, gaussian_bound
from audits.guesses import guessed_sources
from audits.mechanisms.effort import trials_for
from audits.mechanisms.message import AuditedMessage, Floats
from audits.mechanisms.results import MechanismResult
from audits.uploads import Host, open_channel
from securefg.privacy.policy import PlannedRelease

SUSPICIOUS = 0.9
"""A correlation of the noise with a guess of it that chance does not bring about."""


def guess_seeds(message: AuditedMessage, seeds: Sequence[int]) -> list[MechanismResult]:
    """Draw the noise again from every guess; where one fits, play the game with it removed."""
    if not seeds:
        return []
    host = message.host()
    sources = guessed_sources(seeds, discrete=host.discrete)
    enrolled = host.enrol(max(4, 32 // host.cohort))
    seen, _ = host.emit({}, enrolled, 1)
    best = {release.field: SUSPICIOUS for release in message.claimed}
    fitting: dict[str, Host] = {}
    for source in sources:
        copy = Host(message.policy, message.releases, open_channel(message.policy, source))
        again, _ = copy.emit({}, enrolled, 1)
        for name in best:
            likeness = _correlation(seen[name], again[name])
            if likeness > best[name]:
                best[name], fitting[name] = likeness, copy
    return [
        _without_noise(message, release, host, fitting.get(release.field), len(sources))
        for release in message.claimed
    ]


def _without_noise(
    message: AuditedMessage, release: PlannedRelease, host: Host, guess: Host | None, tried: int
) -> MechanismResult:
    (slot,) = message.slots_of(release, 1)
    trials = 400 if host.discrete else trials_for(host, 2000)
    if guess is None:
        gdp, cp = _nothing_shown(trials, tried, message.policy.delta)
    else:
        coins, enrolled = message.coins(trials), host.enrol(trials)
        seen, _ = host.emit({release.field: slot.canary(coins)}, enrolled, 1)
        again, _ = guess.emit({}, enrolled, 1)
        left = seen[release.field] - again[release.field]
        found = message.bound(slot.score(left), coins, 1.0)
        gdp, cp = found.gdp, found.cp
    return message.result("seed", release, host, gdp=gdp, cp=cp)


def _nothing_shown(trials: int, tried: int, delta: float) -> tuple[EpsilonBound, EpsilonBound]:
    """No guess fits: what a game without noise would have shown is the ceiling."""
    perfect = gaussian_bound(0, trials // 2, 0, trials // 2, delta)
    return (
        replace(perfect.gdp, epsilon=0.0, trials=tried),
        replace(perfect.cp, epsilon=0.0, trials=tried),
    )


def _correlation(one: Floats, other: Floats) -> float:
    a, b = one.ravel() - one.mean(), other.ravel() - other.mean()
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return abs(float(a @ b)) / norms if norms > 0 else 0.0
