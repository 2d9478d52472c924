"""Exact tails of the number of marked clients among those that a random graph draws.

    P[j of the drawn are marked] = C(marked, j) C(total - marked, drawn - j) / C(total, drawn)

Integers are exact, so that a bound of 2^-81 is no matter of rounding. Floats find the candidates.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import comb

import numpy as np
from numpy.typing import NDArray


def most_marked(total: int, marked: int, drawn: int, rare: Fraction) -> int:
    """Return the least m that is passed with a probability of at most `rare`."""
    allowed, beyond = rare * comb(total, drawn), 0
    for count, ways in _from_the_top(total, marked, drawn):
        beyond += ways
        if beyond > allowed:
            return count
    return 0


def estimate_most_marked(total: int, marked: int, drawn: int, rare: Fraction) -> int:
    """Return what `most_marked` does, by floats: fast, and to be confirmed."""
    counts = np.arange(min(marked, drawn) + 1)
    chances = np.exp(
        _log_binomials(marked, counts)
        + _log_binomials(total - marked, drawn - counts)
        - _log_binomials(total, np.array([drawn]))
    )
    beyond = np.append(np.cumsum(chances[::-1])[::-1][1:], 0.0)
    return int(np.argmax(beyond <= float(rare)))


def _log_binomials(total: int, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return ln C(total, j); ln 0 where j is more than there are."""
    j = np.clip(chosen, 0, total).astype(np.float64)
    from scipy.special import gammaln  # loaded where it is used

    table: NDArray[np.float64] = gammaln(total + 1.0) - gammaln(j + 1.0) - gammaln(total - j + 1.0)
    return np.where((chosen >= 0) & (chosen <= total), table, -np.inf)


def chance_of_more(total: int, marked: int, drawn: int, most: int) -> Fraction:
    """Return the probability that more than `most` of the drawn are marked."""
    ways = sum(w for count, w in _from_the_top(total, marked, drawn) if count > most)
    return Fraction(ways, comb(total, drawn))


def _from_the_top(total: int, marked: int, drawn: int) -> Iterator[tuple[int, int]]:
    """Yield counts of marked clients, the largest first, and in how many ways each is drawn."""
    count, least = min(marked, drawn), max(0, drawn - (total - marked))
    ways = comb(marked, count) * comb(total - marked, drawn - count)
    while True:
        yield count, ways
        if count == least:
            return
        ways = ways * count * (total - marked - drawn + count)
        ways //= (marked - count + 1) * (drawn - count + 1)
        count -= 1
