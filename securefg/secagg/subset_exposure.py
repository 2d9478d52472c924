"""Subset sums: which clients are in a sum of client constants over the holders of a row.

A sum s_i = sum_k c_k b_ik has a constant c_k of every client, such as its size, and a bit b_ik that
says whether the client holds row i. Real unknowns would not follow from one equation. Bits do:
the sum is one of 2^K subset sums of the constants, and different sizes have different ones. If all
constants are equal, the sum is a count, and bits follow only where everybody or nobody is in it.

The constants count as known. A server reads them off rows with one holder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from securefg.foundation.errors import ConfigError

MOST_SUBSETS: Final = 1 << 20
"""Subset sums that are enumerated. Clients with equal constants count as one group."""

FINEST: Final = 2.0**-22
"""The relative error of sums that were stored as float32."""

Floats = NDArray[np.float64]
Bits = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Membership:
    """What sums say about who is in them, by row and client.

    holders  it follows that the client is in the row's sum
    others   it follows that the client is not in it
    """

    holders: Bits
    others: Bits


def fitted_constants(sums: Floats, members: Bits, error: float) -> tuple[Floats, Floats, Bits]:
    """Fit s_i = sum_k c_k b_ik by least squares to each column of `sums`.

    `members` are the bits, one row per sum and one column per client. `error` bounds the error of
    a sum by rounding. Returns the constants by client and column, the tolerance of each column,
    and whether the column is of this form: real rows are not.
    """
    bits = members.astype(np.float64)
    solution, _, rank, _ = np.linalg.lstsq(bits, sums, rcond=None)
    constants: Floats = solution.astype(np.float64)
    largest = np.abs(sums).max(0, initial=0.0)
    tolerance = FINEST * largest + np.minimum(error, largest / 64)
    residual = np.abs(sums - bits @ constants).max(0, initial=0.0)
    has_evidence = np.count_nonzero(members.any(1)) > rank
    return constants, tolerance, (residual <= tolerance) & (largest > 0) & has_evidence


def subset_exposure(constants: Floats, sums: Floats, tolerance: Floats) -> Membership:
    """Return which clients are, and which are not, in each row of `sums`.

    constants  of every client, for every column of the sums
    sums       of every row: a client is in all columns of it, or in none
    tolerance  by which a column may differ from a subset sum

    Raises ConfigError where more than `MOST_SUBSETS` subset sums would have to be enumerated.
    """
    groups, group_of, sizes = np.unique(
        np.round(constants / (4 * tolerance)), axis=0, return_inverse=True, return_counts=True
    )
    group_of = group_of.reshape(-1)
    centres = np.stack([constants[group_of == group].mean(0) for group in range(len(groups))])
    counts = _all_counts(sizes)
    totals = counts @ centres
    sharpest = int(np.argmax([len(np.unique(column)) for column in centres.T]))
    order = np.argsort(totals[:, sharpest], kind="stable")
    counts, totals = counts[order], totals[order]
    keys, reach = totals[:, sharpest], tolerance[sharpest]
    distinct, row_of = np.unique(sums, axis=0, return_inverse=True)
    low, high = (np.zeros((len(distinct), len(sizes)), np.int64) for _ in range(2))
    has_match = np.zeros(len(distinct), np.bool_)
    for row, wanted in enumerate(distinct):
        near = slice(
            int(np.searchsorted(keys, wanted[sharpest] - reach, side="left")),
            int(np.searchsorted(keys, wanted[sharpest] + reach, side="right")),
        )
        fits = (np.abs(totals[near] - wanted) <= tolerance).all(1)
        if fits.any():
            matched = counts[near][fits]
            low[row], high[row], has_match[row] = matched.min(0), matched.max(0), True
    everybody, nobody = (low == sizes) & has_match[:, None], (high == 0) & has_match[:, None]
    row_of = row_of.reshape(-1)
    return Membership(everybody[row_of][:, group_of], nobody[row_of][:, group_of])


def _all_counts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return every way to take some clients of each group, a row each."""
    num_subsets = 1
    for size in sizes.tolist():
        num_subsets *= size + 1
        if num_subsets > MOST_SUBSETS:
            raise ConfigError(
                f"subset sums: found {len(sizes)} clients, or groups of clients, with different "
                f"constants; expected at most {MOST_SUBSETS} subset sums to enumerate"
            )
    grids = np.meshgrid(*(np.arange(size + 1) for size in sizes.tolist()), indexing="ij")
    return np.stack([grid.reshape(-1) for grid in grids], axis=1)
