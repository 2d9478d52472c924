"""Exposure over a whole run: all sums that were ever opened are one linear system.

A term of a sum is an unknown: one client's part of one message in one round. What never changes in
a run is one unknown over all rounds; a round that was asked in several attempts has one unknown
over all of them. Whatever follows from the system is exposed, however far apart the sums are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from securefg.secagg.exposure import linear_exposure


@dataclass(frozen=True)
class Term:
    """One client's part of a quantity.

    quantity  what is summed: a message's field, or a part of it
    round     when; None where it never changes
    count     how many like parts stand behind it: nodes of the same holders
    """

    client: int
    quantity: str
    round: int | None
    part: Hashable = None
    count: int = 1


OpenedSum = Mapping[Term, float]
"""A sum that a party has: its terms, with what each is multiplied by."""


def exposed_terms(sums: Iterable[OpenedSum], colluders: Collection[int] = ()) -> set[Term]:
    """The terms of honest clients that follow from these sums, once the colluders' are known.

    Terms that are in the same sums are one unknown, their total: by itself none of them follows.
    """
    where: dict[Term, list[tuple[int, float]]] = defaultdict(list)
    for row, one in enumerate(sums):
        for term, times in one.items():
            if term.client not in colluders:
                where[term].append((row, times))
    alike: dict[tuple[tuple[int, float], ...], list[Term]] = defaultdict(list)
    for term, places in where.items():
        alike[tuple(places)].append(term)
    if not alike:
        return set()
    entries = [(r, column, x) for column, places in enumerate(alike) for r, x in places]
    rows, columns, values = (np.array(part) for part in zip(*entries, strict=True))
    matrix = sparse.csr_array((values.astype(float), (rows, columns)))
    exposed = linear_exposure(matrix).exposed
    groups = list(alike.values())
    return {groups[c][0] for c in np.flatnonzero(exposed) if len(groups[c]) == 1}


def num_exposed(terms: Iterable[Term]) -> int:
    return sum(term.count for term in terms)
