"""Tests whether numbers are the noise they are claimed to be: of their size everywhere, never
twice.

The tested numbers are uploads minus the value that was sent, over the standard deviation that is
claimed: an array (messages, rows, width) of standard normals, if all is well. Every test gives a
p-value that already counts the places it looked at. A `severe` test shows that a unit meets less
noise than claimed. Any other test shows that the law is not the one claimed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri

from audits.laws import chi2_log_cdf, chi2_log_sf, student_sf

Floats = NDArray[np.float64]

MOST_PAIRS = 2048
"""Correlations are taken between so many rows, columns or messages at most, evenly spread."""

NUMBERS_TESTED = 1 << 20


@dataclass(frozen=True)
class LawTest:
    """A test: `p` is how likely sound noise looks at least so bad at the worst place."""

    name: str
    p: float
    severe: bool
    words: str


def law_tests(
    noise: Floats, slack: float = 0.0, rounds: int = 1, step: float = 0.0, rounded: int = 0
) -> list[LawTest]:
    """Return all tests of (messages, rows, width) numbers.

    slack   by how much rounding may add to the variance, as a share of it
    step    of the grid that the noise lies on, in standard deviations (0 for none)
    rounds  the messages are so many rounds of as many messages each
    rounded so many values were rounded to that grid and added up: what is left of a number without
            noise are their roundings
    """
    if not np.isfinite(noise).all():
        return [_no_numbers(noise)]
    plain_tests = [
        *_test_levels(noise, slack, rounds, step),
        *_test_sums(noise, rounds, step),
        _test_zeros(noise, step, rounded),
        _test_repeats(noise, "row", step),
        _test_repeats(noise, "message", step),
        _test_lags(noise),
        _test_law(noise),
        _test_tails(noise, step),
    ]
    in_rounds = [*_pairs_of_a_round(noise, rounds), *_again_in_a_round(noise, rounds)]
    return [
        *plain_tests,
        *_test_pairs(noise),
        *in_rounds,
        *_flat_directions(noise),
        *_by_size_alone(noise, rounds, step),
    ]


def joint_tests(parts: Sequence[Floats]) -> list[LawTest]:
    """Return tests whether fields of the same messages share noise. `parts` are (messages, rows,
    width) each."""
    joined = np.concatenate([part.reshape(len(part), 1, -1) for part in parts], axis=2)
    if not np.isfinite(joined).all():
        return [_no_numbers(joined)]
    found = [_test_lags(joined), *_test_pairs(joined), *_by_size_alone(joined)]
    return [replace(test, name=f"{test.name}, all fields") for test in found]


# ---------------------------------------------------------------------------------------- size


def _test_levels(noise: Floats, slack: float, rounds: int, step: float) -> Iterator[LawTest]:
    """Yield tests of the sum of squares over a message, a row, a column, a row of one message, and
    over all messages of a round at one place. On a grid 0 stands for all that is within half a
    step."""
    squares = np.square(np.maximum(np.abs(noise), step / 2))
    parts = {
        "message": (squares.sum((1, 2)), noise[0].size),
        "row": (squares.sum((0, 2)), noise[:, 0].size),
        "column": (squares.sum((0, 1)), noise[:, :, 0].size),
        "row of one message": (squares.sum(2).ravel(), noise.shape[2]),
        "place in a round": (
            squares.reshape(rounds, len(noise) // rounds, -1).sum(1).ravel(),
            len(noise) // rounds,
        ),
    }
    for name, (sums, count) in parts.items():
        place = int(sums.argmin())  # the law of all is one, so the extreme one has the least p
        low = _of_many(chi2_log_cdf(sums[place], count), len(sums))
        level = math.sqrt(sums[place] / count)
        yield LawTest(
            f"noise of a {name}",
            low,
            True,
            f"{name} {place} has {level:.3g} of the claimed noise",
        )
        place = int(sums.argmax())
        high = _of_many(chi2_log_sf(sums[place] / (1 + slack) ** 2, count), len(sums))
        level = math.sqrt(sums[place] / count)
        yield LawTest(
            f"excess of a {name}",
            high,
            False,
            f"{name} {place} differs from what was sent by {level:.3g} of the claimed noise",
        )


def _test_sums(noise: Floats, rounds: int, step: float = 0.0) -> Iterator[LawTest]:
    """Yield tests of the sums that a server forms: over all messages of a round, all rows of a
    message, all numbers of its rows.

    Noises that cancel leave the sum bare, and are sound one by one and pair by pair. On a grid a
    sum of 0 stands for all that is within half a step.
    """
    by_round = noise.reshape(rounds, len(noise) // rounds, *noise.shape[1:])
    for name, group, added in (
        ("messages of round", by_round, 1),
        ("rows of message", noise, 1),
        ("columns of message", noise, 2),
    ):
        if group.shape[added] < 2:
            continue
        sums = np.maximum(np.abs(group.sum(added).reshape(len(group), -1)), step / 2)
        sums = sums / math.sqrt(group.shape[added])
        squares = np.square(sums).sum(1)
        place = int(squares.argmin())
        p = _of_many(chi2_log_cdf(squares[place], sums.shape[1]), len(squares))
        level = math.sqrt(squares[place] / sums.shape[1])
        number = place + 1 if group is by_round else place
        words = f"the sum over all {name} {number} has {level:.3g} of the claimed noise"
        yield LawTest(f"noise of a sum of {name.split()[0]}", p, True, words)


def _no_numbers(noise: Floats) -> LawTest:
    """Return a failed test. NaN and infinity pass on what they were made of, whatever was added to
    them."""
    count = int((~np.isfinite(noise)).sum())
    words = f"{count} of {noise.size} numbers are not finite, and no noise hides that"
    return LawTest("numbers that are not finite", 0.0, True, words)


def _test_zeros(noise: Floats, step: float = 0.0, rounded: int = 0) -> LawTest:
    """Return a test for numbers that carry no noise at all.

    Sound noise is as small once in a million, and noise on a grid is 0 with the grid's step times
    the density there. A rounding scatters by half a step at most, so that many of them together
    rarely pass sqrt(rounded) steps.
    """
    near = max(1e-6, step * math.sqrt(rounded))
    bare = int((np.abs(noise) < near).sum())
    expected = noise.size * (2 * near + step) / math.sqrt(2 * math.pi)
    # Chernoff: P[X >= k] <= exp(k - m) (m / k)^k for k > m.
    p = math.exp(bare - expected + bare * math.log(expected / bare)) if bare > expected else 1.0
    return LawTest("bare numbers", p, True, f"{bare} of {noise.size} numbers carry no noise")


# ------------------------------------------------------------------------------------ repetition


LARGEST = 16


def _test_repeats(noise: Floats, name: str = "row", step: float = 0.0) -> LawTest:
    """Return a test for units that are alike but for order and sign, by three digits of every
    number, or of the largest: the smallest of many numbers all round to 0.

    Sound numbers agree with a chance of 4e-3 at most. For the k-th largest of n, whose distance to
    the next is about exponential with mean 1 / (k sqrt(2 log n)), the chance is 6e-3 k for any n
    here.
    """
    units = noise if name == "row" and noise.shape[2] >= 6 else noise.reshape(len(noise), 1, -1)
    width = units.shape[2]
    rows = np.sort(np.abs(units.reshape(-1, width)), axis=1)
    few = width <= 64
    kept = np.round(rows if few else rows[:, -LARGEST:], 3)
    _, first, counts = np.unique(kept, axis=0, return_index=True, return_counts=True)
    twice = int(counts.max())
    pairs = len(rows) * (len(rows) - 1) / 2
    coarse = max(1.0, step * 1e3) ** kept.shape[1]
    chance = (4e-3**width if few else 6e-3**LARGEST * math.factorial(LARGEST)) * coarse
    p = min(1.0, pairs * chance) if twice > 1 else 1.0
    message, row = divmod(int(first[counts.argmax()]), units.shape[1])
    where = f"row {row} of message {message}" if name == "row" else f"message {message}"
    return LawTest(f"repeated {name}", p, True, f"the noise of {where} occurs {twice} times")


def _test_pairs(noise: Floats, *, centred: bool = False) -> Iterator[LawTest]:
    """Yield tests of the correlations between any two messages, rows and columns.

    centred  take the mean of every row off first, which leaves one number less of it
    """
    for axis, name in enumerate(("messages", "rows", "columns")):
        table = np.moveaxis(noise, axis, 0).reshape(noise.shape[axis], -1)
        if len(table) < 2 or table.shape[1] < 8:
            continue
        if len(table) > MOST_PAIRS:
            table = table[np.linspace(0, len(table) - 1, MOST_PAIRS).astype(int)]
        if centred:
            table = table - table.mean(1, keepdims=True)
        p, pair, value = _most_alike(table, table.shape[1] - 1 - centred)
        yield LawTest(
            f"independence of {name}",
            p,
            True,
            f"{name} {pair[0]} and {pair[1]} have noises with a correlation of {value:+.3f}",
        )


def _pairs_of_a_round(noise: Floats, rounds: int) -> Iterator[LawTest]:
    """Yield the test of the worst round, counted as often as there are rounds. Noise that is shared
    in one round alone drowns among the others."""
    if rounds < 2:
        return
    found = [list(_test_pairs(part)) for part in np.split(noise, rounds)]
    for tests in zip(*found, strict=True):
        worst_round = min(range(rounds), key=lambda number: tests[number].p)
        test = tests[worst_round]
        p, words = min(1.0, rounds * test.p), f"{test.words}, in round {worst_round + 1}"
        yield LawTest(f"{test.name} in a round", p, test.severe, words)


def _again_in_a_round(noise: Floats, rounds: int) -> Iterator[LawTest]:
    """Yield a test of the noise of one place, over all messages of a round, against the same place
    in the first round and in the round before."""
    by_round = noise.reshape(rounds, len(noise) // rounds, -1)
    messages, places = by_round.shape[1:]
    if rounds < 2 or messages < 8:
        return
    pairs = sorted({(0, k) for k in range(1, rounds)} | {(k - 1, k) for k in range(1, rounds)})
    lengths = np.maximum(np.sqrt(np.square(by_round).sum(1)), 1e-300)
    found = [np.abs((by_round[i] * by_round[k]).sum(0)) / lengths[i] / lengths[k] for i, k in pairs]
    likeness = np.clip(np.stack(found), 0, 1 - 1e-15)
    pair, place = divmod(int(likeness.argmax()), places)
    value = float(likeness[pair, place])
    statistic = value * math.sqrt((messages - 1) / (1 - value * value))
    p = min(1.0, 2 * likeness.size * student_sf(statistic, messages - 1))
    first, later = pairs[pair]
    words = (
        f"place {place} has noises of correlation {value:.3f} in rounds {first + 1}, {later + 1}"
    )
    yield LawTest("noise again in a later round", p, True, words)


def _by_size_alone(noise: Floats, rounds: int = 1, step: float = 0.0) -> Iterator[LawTest]:
    """Yield tests for noise that comes again with other signs. Only the correlation of its sizes
    shows it.

    If x is standard normal, so is Phi^-1(2 Phi(|x|) - 1), which keeps the size alone. Rows are
    centred, since noise that is larger than claimed is no repetition.
    """
    tails = ndtr(-np.maximum(np.abs(noise), max(step / 2, 1e-3)))
    sizes = -ndtri(np.maximum(2 * tails, 1e-300))
    tests = [*_test_pairs(sizes, centred=True), *_again_in_a_round(sizes - sizes.mean(), rounds)]
    for test in tests:
        yield replace(test, name=f"{test.name}, by size alone")


def _most_alike(table: Floats, free: int) -> tuple[float, tuple[int, int], float]:
    lengths = np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-300)
    units = (table / lengths).astype(np.float32)  # to find the pair; its value is exact
    likeness = units @ units.T
    np.fill_diagonal(likeness, 0.0)
    i, j = divmod(int(np.abs(likeness, out=likeness).argmax()), len(table))
    value = float(np.dot(table[i] / lengths[i], table[j] / lengths[j]))
    value = float(np.clip(value, -1 + 1e-15, 1 - 1e-15))
    statistic = abs(value) * math.sqrt(free / (1 - value * value))
    pairs = len(table) * (len(table) - 1) / 2
    return min(1.0, 2 * pairs * student_sf(statistic, free)), (i, j), value


def _test_lags(noise: Floats) -> LawTest:
    """Return a test for noise that comes again later in the message, by the correlation at every
    lag."""
    from scipy.fft import irfft, rfft  # as `kstest`

    flat = noise.reshape(-1)[:NUMBERS_TESTED]
    size = 1 << (2 * len(flat) - 1).bit_length()
    spectrum = rfft(flat.astype(np.float32), size)
    products = irfft(np.square(np.abs(spectrum)), size)[1 : len(flat)]
    terms = np.arange(len(flat) - 1, 0, -1)
    enough = terms >= 64
    if not enough.any():
        return LawTest("noise again at a distance", 1.0, True, "too few numbers to tell")
    power = max(float(np.square(flat).mean()), 1e-300)
    statistic = np.abs(products[enough]) / np.sqrt(terms[enough]) / power
    place = int(statistic.argmax())
    # Sums of products of normals have heavier tails than a normal: the level counts a tenth less.
    p = min(1.0, 2 * len(statistic) * math.exp(float(log_ndtr(-0.9 * statistic[place]))))
    words = f"numbers {place + 1} apart have related noises"
    return LawTest("noise again at a distance", p, True, words)


def _flat_directions(noise: Floats) -> Iterator[LawTest]:
    """Yield tests for a direction across columns, or rows, in which hardly any noise lies.

    The smallest singular value of n x d standard normals is above sqrt(n) - sqrt(d) - t but for a
    chance of exp(-t^2 / 2) (Davidson and Szarek 2001).
    """
    for axis, name in ((2, "columns"), (1, "rows")):
        table = np.moveaxis(noise, axis, -1).reshape(-1, noise.shape[axis])
        n, d = table.shape
        if not 2 <= d <= 512 or n < 4 * d:
            continue
        smallest = math.sqrt(max(float(np.linalg.eigvalsh(table.T @ table)[0]), 0.0))
        t = max(0.0, math.sqrt(n) - math.sqrt(d) - smallest)
        yield LawTest(
            f"direction across {name}",
            math.exp(-t * t / 2),
            True,
            f"a direction across {name} has {smallest / math.sqrt(n):.3g} of the claimed noise",
        )


def _test_law(noise: Floats) -> LawTest:
    from scipy.stats import kstest  # half a second that audits without noise need not pay

    flat = noise.reshape(-1)
    chosen = flat[:: max(1, len(flat) // 100_000)]
    exact = len(chosen) <= 1000
    p = float(kstest(chosen, "norm", method="exact" if exact else "asymp").pvalue)
    return LawTest("law of the noise", p, False, "the noise is not of the claimed law")


def _test_tails(noise: Floats, step: float) -> LawTest:
    """Return a test for noise that is cut off, so that none of many numbers lies beyond the
    largest. Losses by rounding and a grid are added to the largest."""
    largest = float(np.abs(noise).max())
    p = math.exp(noise.size * math.log1p(-2 * float(ndtr(-largest - step - 1e-3))))
    words = (
        f"none of {noise.size} numbers passes {largest:.3g} standard deviations: it is cut off, so "
        "not of the claimed law"
    )
    return LawTest("tails of the noise", p, False, words)


def _of_many(log_p: float, places: int) -> float:
    """Return the smallest of p-values at many places, counted as often as there are places."""
    return min(1.0, math.exp(min(0.0, float(log_p) + math.log(places))))


def worst_test(tests: Sequence[LawTest], level: float) -> LawTest | None:
    """Return the test that fails at a level shared by all of them, severe ones first."""
    failed = [test for test in tests if test.p * len(tests) < level]
    return min(failed, key=lambda test: (not test.severe, test.p), default=None)
