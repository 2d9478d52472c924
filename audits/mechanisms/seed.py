"""The game of seeds: noise that somebody can draw again protects nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

import numpy as np

from audits.generators import Rows, first_normals
from audits.guesses import (
    MOST_MICROSECONDS,
    clock_seeds,
    guess_test,
    guessed_sources,
    likeness_test,
    near_seeds,
    small_space,
)
from audits.mechanisms.message import AuditedMessage, Floats
from audits.mechanisms.results import LawResult, Result
from audits.noise_law import LawTest
from audits.uploads import Host, open_channel
from securefg.privacy.releases import PlannedRelease

AUDIT = 10.0
"""Seconds before the noise was drawn, within which a seed may have been read off a clock."""

MOST_READ = 16
UPLOADS = 32
MOST_NUMBERS = 1 << 14
"""A guess is compared in the planned shape where that has no more numbers."""


def guess_seeds(message: AuditedMessage, seeds: Sequence[int]) -> list[Result]:
    """Draw the noise of single uploads again from every guess. Readings of the clock while the
    noise was drawn, and other spaces that are small enough, are searched by the first numbers that
    a generator gives.

    seeds  the run's own first
    """
    if not seeds:
        return []
    began = time.time()
    host = _host(message)
    enrolled = host.enrol(1 if host.rows is None else UPLOADS)
    seen, _ = host.emit({}, enrolled, 1)
    drawn = time.time()
    again: dict[str, list[Floats]] = {release.field: [] for release in message.claimed}
    for source in guessed_sources([*_read_off(began), *seeds], discrete=host.discrete):
        channel = open_channel(message.policy, source)
        copy = Host(message.policy, message.releases, channel, rows=host.rows, alone=True)
        guess, _ = copy.emit({}, enrolled, 1)
        for name, guesses in again.items():
            guesses.append(guess[name])
    opened = int(began * 1e6)
    here = [
        *(os.getpid(), os.getppid()),
        *near_seeds(seeds[0]),
        *clock_seeds(drawn - AUDIT, drawn),
        *range(opened - 2, opened + MOST_MICROSECONDS),
    ]
    tables = [] if host.discrete else [first_normals(here), small_space()]
    return [
        _result(message, release, host, seen, again[release.field], tables)
        for release in message.claimed
    ]


def _host(message: AuditedMessage) -> Host:
    """Single uploads: of the planned shape where few numbers would not tell a guess from chance."""
    whole = message.host(rows=None, alone=True)
    if whole.discrete and whole.numbers_per_trial <= MOST_NUMBERS:
        return whole
    whole.rows = 1
    return whole


def _read_off(began: float) -> list[int]:
    """The second and the milliseconds in which a channel was opened: as many in every audit."""
    first = int(began * 1e3) - 1
    return [*range(first, first + MOST_READ), int(began), os.getpid()]


def _result(
    message: AuditedMessage,
    release: PlannedRelease,
    host: Host,
    seen: Mapping[str, Floats],
    guesses: Sequence[Floats],
    tables: Sequence[Rows],
) -> LawResult:
    """All clients' noise may be of one generator, or each client's of its own."""
    law, noise = message.law(release, host), seen[release.field]
    tests: list[LawTest] = [guess_test(noise, guesses)]
    if law.is_normal:
        scaled = np.asarray(noise / law.sd)
        tests += [likeness_test(part.ravel(), tables) for part in (scaled, scaled[0])]
    return message.law_result("seed", release, host, tests, noise.size)
