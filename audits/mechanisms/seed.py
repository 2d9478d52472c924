"""The game of seeds: noise that somebody can draw again protects nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from audits.empirical_epsilon import EpsilonBound, gaussian_bound
from audits.generators import Rows, first_normals
from audits.guesses import (
    MOST_MICROSECONDS,
    clock_seeds,
    guessed_sources,
    likeness_test,
    near_seeds,
    small_space,
)
from audits.mechanisms.effort import trials_for
from audits.mechanisms.message import AuditedMessage, Floats
from audits.mechanisms.results import LawResult, MechanismResult, Result
from audits.uploads import Host, open_channel
from securefg.privacy.policy import PlannedRelease
from securefg.privacy.rules import LocalGaussian

SUSPICIOUS = 0.9
"""A correlation of the noise with a guess of it that chance does not bring about."""

AUDIT = 10.0
"""Seconds before the noise was drawn, within which a seed may have been read off a clock."""

MOST_READ = 16


def guess_seeds(message: AuditedMessage, seeds: Sequence[int]) -> list[Result]:
    """Draw the noise again from every guess; where one fits, play the game with it removed. What
    clocks showed while the noise was drawn, and other spaces that are small enough, are searched by
    the first numbers that a generator gives.

    seeds  the run's own first
    """
    if not seeds:
        return []
    began = time.time()
    host = message.host()
    enrolled = host.enrol(max(4, 32 // host.cohort))
    seen, _ = host.emit({}, enrolled, 1)
    drawn = time.time()
    best = {release.field: SUSPICIOUS for release in message.claimed}
    fitting: dict[str, Host] = {}
    sources = guessed_sources([*_read_off(began), *seeds], discrete=host.discrete)
    for source in sources:
        copy = Host(message.policy, message.releases, open_channel(message.policy, source))
        again, _ = copy.emit({}, enrolled, 1)
        for name in best:
            likeness = _correlation(seen[name], again[name])
            if likeness > best[name]:
                best[name], fitting[name] = likeness, copy
    results: list[Result] = [
        _without_noise(message, release, host, fitting.get(release.field), len(sources))
        for release in message.claimed
    ]
    if host.discrete or fitting:
        return results
    opened = int(began * 1e6)
    here = [
        *(os.getpid(), os.getppid()),
        *near_seeds(seeds[0]),
        *clock_seeds(drawn - AUDIT, drawn),
        *range(opened - 2, opened + MOST_MICROSECONDS),
    ]
    tables = [first_normals(here), small_space()]
    found = [_searched(message, release, host, seen, tables) for release in message.claimed]
    return [law if law.suspected else game for law, game in zip(found, results, strict=True)]


def _read_off(began: float) -> list[int]:
    """The second and the milliseconds in which a channel was opened: as many in every audit."""
    first = int(began * 1e3) - 1
    return [*range(first, first + MOST_READ), int(began), os.getpid()]


def _searched(
    message: AuditedMessage,
    release: PlannedRelease,
    host: Host,
    seen: Mapping[str, Floats],
    tables: Sequence[Rows],
) -> LawResult:
    """All clients' noise may be of one generator, or each client's of its own."""
    rule = message.rule(release)
    assert isinstance(rule, LocalGaussian)
    noise = seen[release.field] / rule.stddev
    tests = (likeness_test(noise.ravel(), tables), likeness_test(noise[0].ravel(), tables))
    unit = message.unit_of(release)
    return LawResult(
        field=release.name,
        check="seed",
        unit=unit,
        rule=rule.name,
        rounds=1,
        planned=release.count,
        claimed=message.epsilon([release], 1, unit, host),
        tests=tests,
        numbers=noise.size,
        level=message.level,
    )


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
