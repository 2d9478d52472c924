"""Exposure over a whole run: all sums that were ever opened are one linear system.

A term of a sum is an unknown: one client's part of one message in one round. What never changes in
a run is one unknown over all rounds; a round that was asked in several attempts has one unknown
over all of them. Whatever follows from the system is exposed, however far apart the sums are.
"""

from __future__ import annotations

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
    """The terms of honest clients that follow from these sums, once the colluders' are known."""
    listed = [one for one in sums if one]
    terms = sorted({term for one in listed for term in one}, key=repr)
    if not terms:
        return set()
    place = {term: column for column, term in enumerate(terms)}
    rows = np.repeat(np.arange(len(listed)), [len(one) for one in listed])
    columns = np.array([place[term] for one in listed for term in one])
    values = np.array([float(x) for one in listed for x in one.values()])
    shape = (len(listed), len(terms))
    matrix = sparse.csr_array((values, (rows, columns)), shape=shape)
    known = [column for column, term in enumerate(terms) if term.client in colluders]
    found = linear_exposure(matrix, known)
    return {terms[column] for column in np.flatnonzero(found.exposed & ~found.known)}


def num_exposed(terms: Iterable[Term]) -> int:
    return sum(term.count for term in terms)
