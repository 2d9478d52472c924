"""The redraw test: the same clients, round and value must meet other noise at every draw.

Noise from a constant key, from a hash of public names or of the value, or from the run's seed is
the same at every draw, and whoever has the code takes it off. The test draws the noise of single
clients many times, by one host and by another, which is sharp for noise under masks too. In the
birthday test, equal draws among many show that the noise comes from few seeds, fresh ones included.

`play_seed` guesses the seeds that an adversary would try first.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from torch import Tensor

from audits.generators import Rows, first_normals
from audits.guessed_noise import (
    MOST_MICROSECONDS,
    clock_seeds,
    guess_test,
    guessed_sources,
    likeness_test,
    near_seeds,
    small_space,
)
from audits.laws import binomial_at_least, chi2_log_cdf, student_sf
from audits.mechanisms.message import AuditedMessage, Floats
from audits.mechanisms.results import LawResult, Result
from audits.noise_law import LawTest
from audits.uploads import Host, open_channel, unit_norms
from securefg.privacy.law import Law
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.codec import Clients, Turn

NUMBERS: Final = 1 << 19
LEAST_DRAWS, MOST_DRAWS = 8, 64
CLIENTS: Final = 4
"""One sends nothing, the others ever larger values: as far as a unit moves, up to the clip."""

BIRTHDAYS: Final = 500
"""Redraws of one client: of 2^15 seeds, two are equal with a chance of .98."""
THOROUGH_BIRTHDAYS: Final = 1 << 18
"""Of 2^32 seeds, two are equal with a chance of .9997; it takes a minute or two per message."""
WIDEST: Final = 256


def play_redraw(message: AuditedMessage) -> list[LawResult]:
    """Draw the noise again, half of the draws by one host and half by a newly opened host, and
    return the results."""
    host, other = (message.make_host(rows=None, alone=True) for _ in range(2))
    if host.numbers_per_trial * CLIENTS * LEAST_DRAWS > NUMBERS:
        host.rows = other.rows = 1
    room = NUMBERS // (CLIENTS * host.numbers_per_trial)
    each = min(MOST_DRAWS, max(LEAST_DRAWS, room)) // 2
    sent = {release.field: _test_values(message, release, host) for release in message.claimed}
    enrolled = host.enrol_clients(CLIENTS)
    drawn = [who.emit_views(sent, enrolled, 1)[0] for who in (host, other) for _ in range(each)]
    results = []
    for release in message.claimed:
        name, law = release.field, message.law(release, host)
        sigma = law.sd
        seen = np.stack([emission[name] for emission in drawn]).reshape(2 * each, CLIENTS, -1)
        clean = sent[name].reshape(CLIENTS, -1)
        tests = redraw_tests(law.normal_scores((seen - clean) / sigma), clean)
        tests += low_bits_tests(seen, _grid_of(message, release, law), sigma)
        results.append(message.law_result("redraw", release, host, tests, seen.size))
    return results


def _test_values(message: AuditedMessage, release: PlannedRelease, host: Host) -> Floats:
    """Return values (clients, rows, width): of length 0, and from the unit's move up to nearly the
    clip."""
    rule, size = message.rule_of(release), message.size(release)
    values = message.rng.standard_normal((CLIENTS, *host.shape(release)))
    values /= unit_norms(values, rule)
    largest = 0.9 * rule.clip_l2
    smallest = min(size, largest)
    lengths = np.array([0.0, smallest, math.sqrt(smallest * largest), largest])
    return np.asarray((values * lengths[:, None, None]).astype(np.float32), np.float64)


def redraw_tests(draws: Floats, clean: Floats) -> list[LawTest]:
    """Return the tests of noises (draws, clients, numbers), in claimed standard deviations, that
    were drawn again and again for the values `clean` (clients, numbers)."""
    if not np.isfinite(draws).all():
        return [LawTest("redraw", 0.0, True, "numbers that are not finite")]
    return [*_test_alike(draws), _test_spread(draws), *_test_along(draws, clean)]


def _test_alike(draws: Floats) -> Iterator[LawTest]:
    """Yield a test of the two draws of one client that are most alike."""
    count, _, numbers = draws.shape
    tables = draws.transpose(1, 0, 2) if numbers >= 8 else draws.reshape(1, count, -1)
    numbers = tables.shape[2]
    if numbers < 4:
        return
    lengths = np.maximum(np.linalg.norm(tables, axis=2, keepdims=True), 1e-300)
    units = tables / lengths
    likeness = np.abs(units @ units.transpose(0, 2, 1))
    likeness[:, np.arange(count), np.arange(count)] = 0.0
    value = float(np.clip(likeness.max(), 0, 1 - 1e-15))
    pairs = len(tables) * count * (count - 1) / 2
    statistic = value * math.sqrt((numbers - 1) / (1 - value * value))
    p = min(1.0, 2 * pairs * student_sf(statistic, numbers - 1))
    words = f"two draws for the same client, round and value have a correlation of {value:.3f}"
    yield LawTest("noise drawn again", p, True, words)


def _test_spread(draws: Floats) -> LawTest:
    """Return a test that every number differs from draw to draw, by its sum of squares around its
    mean."""
    squares = np.square(draws - draws.mean(0)).sum(0)
    least = float(squares.min())
    p = math.exp(min(0.0, float(chi2_log_cdf(least, len(draws) - 1)) + math.log(squares.size)))
    words = (
        f"a number spreads by {math.sqrt(least / (len(draws) - 1)):.3g} of the claimed noise over "
        f"{len(draws)} draws for the same client, round and value"
    )
    return LawTest("spread over draws", p, True, words)


def _test_along(draws: Floats, clean: Floats) -> Iterator[LawTest]:
    """Yield a test of the noise along the direction of the value that it is added to."""
    lengths = np.linalg.norm(clean, axis=1)
    is_nonzero = lengths > 0
    if not is_nonzero.any():
        return
    directions = clean[is_nonzero] / lengths[is_nonzero, None]
    squares = np.square((draws[:, is_nonzero] * directions).sum(2)).sum(0)
    least = float(squares.min())
    p = math.exp(min(0.0, float(chi2_log_cdf(least, len(draws))) + math.log(len(squares))))
    words = (
        f"along the value that it hides the noise has {math.sqrt(least / len(draws)):.3g} of the "
        "claimed size"
    )
    yield LawTest("noise along the value", p, True, words)


def _grid_of(message: AuditedMessage, release: PlannedRelease, law: Law) -> float:
    """Return the step of the grid that the defence puts uploads on. It is infinite if there is no
    grid, or if masks have another grid."""
    masked = message.policy.mask(release.message, release.field)
    has_own = law.is_discrete or masked is None
    return law.step if has_own and law.step else math.inf


def low_bits_tests(seen: Floats, step: float, sigma: float) -> list[LawTest]:
    """Return tests whether the low bits of uploads, in steps of their grid, come again at every
    draw.

    Bits of weight far below the noise are fair coins, whatever the value is. `seen` has a row for
    every draw.
    """
    bits = math.floor(math.log2(max(1.0, sigma / step / 2)))
    whole = np.round(seen / step)
    if bits < 1 or not np.abs(whole).max() < 2**53:
        return []
    found = whole.astype(np.int64)
    pairs = found[0::2][: len(found) // 2] ^ found[1::2][: len(found) // 2]
    worst, words = 1.0, "no bit was compared"
    for bit in range(bits):
        differ = int(((pairs >> bit) & 1).sum())
        far = min(differ, pairs.size - differ)
        p = min(1.0, 2 * bits * float(binomial_at_least(pairs.size - far, pairs.size, 0.5)))
        if p <= worst:
            worst = p
            words = f"bit {bit} of uploads differs in {differ} of {pairs.size} pairs of draws"
    return [LawTest("low bits drawn again", worst, True, words)]


# ------------------------------------------------------------------------------------- birthdays


def play_birthdays(message: AuditedMessage, draws: int) -> list[LawResult]:
    """Draw one client's noise many times and return the results. No two draws may be equal."""
    pairs = draws * (draws - 1) / 2
    host = message.make_host(alone=True)
    host.width = min(
        WIDEST, max(_enough_numbers(message.law(r, host), pairs) for r in message.claimed)
    )
    nothing, turn = host.message_of({}, 1, 1), Turn(1, 1, Clients(((0, 1),)))
    seen: dict[str, set[bytes]] = {release.field: set() for release in message.claimed}
    for _ in range(draws):
        fields = host.channel.seal(nothing, turn).fields
        for name, prints in seen.items():
            value = fields[name]
            assert isinstance(value, Tensor)
            prints.add(value.numpy().tobytes())
    results = []
    for release in message.claimed:
        rows, width = host.shape(release)
        chance = math.exp(rows * width * message.law(release, host).log_equal)
        equal = draws - len(seen[release.field])
        p = min(1.0, pairs * chance) if equal else 1.0
        words = f"{equal} of {draws} draws of one client's noise came before: its seeds are few"
        test = LawTest("birthdays", p, True, words)
        results.append(message.law_result("birthday", release, host, [test], draws))
    return results


def _enough_numbers(law: Law, pairs: float) -> int:
    """Return the count of numbers at which sound noise has two equal draws once in 10^12 audits."""
    return math.ceil((math.log(1e-12) - math.log(pairs)) / law.log_equal)


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
    host = _make_host(message)
    enrolled = host.enrol_clients(1 if host.rows is None else UPLOADS)
    seen, _ = host.emit_views({}, enrolled, 1)
    drawn = time.time()
    again: dict[str, list[Floats]] = {release.field: [] for release in message.claimed}
    for source in guessed_sources([*_read_off(began), *seeds], discrete=host.discrete):
        channel = open_channel(message.policy, source)
        copy = Host(message.policy, message.releases, channel, rows=host.rows, alone=True)
        guess, _ = copy.emit_views({}, enrolled, 1)
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
        _law_result(message, release, host, seen, again[release.field], tables)
        for release in message.claimed
    ]


def _make_host(message: AuditedMessage) -> Host:
    """Return a host of single uploads, in the planned shape if few numbers could not tell a guess
    from chance."""
    whole = message.make_host(rows=None, alone=True)
    if whole.discrete and whole.numbers_per_trial <= MOST_NUMBERS:
        return whole
    whole.rows = 1
    return whole


def _read_off(began: float) -> list[int]:
    """Return the second and the milliseconds in which a channel was opened, as many in every
    audit."""
    first = int(began * 1e3) - 1
    return [*range(first, first + MOST_READ), int(began), os.getpid()]


def _law_result(
    message: AuditedMessage,
    release: PlannedRelease,
    host: Host,
    seen: Mapping[str, Floats],
    guesses: Sequence[Floats],
    tables: Sequence[Rows],
) -> LawResult:
    """Return the result of one field. All clients' noise may be of one generator, or each client's
    of its own."""
    law, noise = message.law(release, host), seen[release.field]
    tests: list[LawTest] = [guess_test(noise, guesses)]
    if law.is_normal:
        scaled = np.asarray(noise / law.sd)
        tests += [likeness_test(part.ravel(), tables) for part in (scaled, scaled[0])]
    return message.law_result("seed", release, host, tests, noise.size)
