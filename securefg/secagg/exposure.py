"""Exposure: which contributions an adversary can solve for from the sums it was sent.

Masking shows sums and hides their terms. Sums are linear equations, though, and enough of them
give single terms away, exactly and without any training. Nothing here sees a private value: the
check needs only who was added to what.

Over a whole run all sums that were ever opened are one linear system (`exposed_terms`). A term is
an unknown: one client's part of one message in one round. A part that never changes in a run is one
unknown over all rounds, and so is a round that was asked in several attempts.

Subset sums show more (`subset_exposure`). A sum s_i = sum_k c_k b_ik has a constant c_k of every
client, such as its size, and a bit b_ik that says whether the client holds row i. Real unknowns
would not follow from one equation. Bits do: the sum is one of 2^K subset sums of the constants, and
different sizes have different ones. If all constants are equal, the sum is a count, and bits follow
only where everybody or nobody is in it. The constants count as known: a server reads them off rows
with one holder.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from securefg.foundation.errors import ConfigError

RESIDUAL: Final = 1e-8
"""e_j counts as within the row space when less than this of it lies in the null space."""

LARGEST_BLOCK: Final = 8192
"""Sums, or contributions, that may hang together: a dense SVD of more takes tens of gigabytes."""

Weights = NDArray[Any] | sparse.sparray | sparse.spmatrix

_EPS: Final = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Exposure:
    """What a set of sums gives away about each contribution, a column of the weights.

    exposed           the contribution follows from the sums exactly
    known             it is the adversary's own and does not count
    amplification     standard deviation of the best estimate where every sum carries independent
                      noise of standard deviation 1; infinite where not exposed
    condition_number  largest over least non-zero singular value; infinite without any sum
    """

    exposed: NDArray[np.bool_]
    known: NDArray[np.bool_]
    amplification: NDArray[np.float64]
    condition_number: float

    @property
    def share(self) -> float:
        """The exposed part of what the adversary did not know; 0 if it knew everything."""
        unknown = np.count_nonzero(~self.known)
        return float(np.count_nonzero(self.exposed)) / unknown if unknown else 0.0

    def __repr__(self) -> str:
        return f"Exposure(share={self.share:.4f}, condition_number={self.condition_number:.4g})"


def linear_exposure(weights: Weights, known: Collection[int] = ()) -> Exposure:
    """Contribution j is recoverable from s = W x iff e_j lies in the row space of W.

    With W = U S V^T of rank r and N the last n - r rows of V^T: |N e_j| < 1e-8; the noise
    amplification is |e_j^T W^+| = |e_j^T V S^-1|. An SVD is taken of every connected part of the
    bipartite graph of sums and contributions apart, which is exact, and needs no n x n matrix.

    `known` contributions, such as the colluders' own, are subtracted first. Weights must be
    float64 or integers: rounded to float32, a singular matrix looks like one that can be inverted.
    """
    matrix = _check_weights(weights)
    columns = matrix.shape[1]
    is_known = np.zeros(columns, np.bool_)
    is_known[list(known)] = True
    residual = np.ones(columns)
    amplification = np.full(columns, np.inf)
    spectrum: list[NDArray[np.float64]] = []
    for rows, unknown in _connected_blocks(matrix, ~is_known):
        block = matrix[rows][:, unknown].toarray()
        residual[unknown], amplification[unknown], values = _solve_block(block)
        spectrum.append(values)
    exposed = residual < RESIDUAL
    found = np.concatenate(spectrum) if spectrum else np.zeros(0)
    condition = float(found.max() / found.min()) if found.size else np.inf
    return Exposure(exposed, is_known, np.where(exposed, amplification, np.inf), condition)


def session_exposure(survivor_sets: Sequence[Collection[int]], num_contributions: int) -> Exposure:
    """What several sums over sets of the SAME contributions give away together.

    Two sums of one upload that differ by one client show that client's. One session sends each
    upload once, so its own list has one set; a method that sums an unchanged value again after
    drop-outs adds another.
    """
    weights = np.zeros((len(survivor_sets), num_contributions), np.int64)
    for row, members in enumerate(survivor_sets):
        weights[row, list(members)] = 1
    return linear_exposure(weights)


def _check_weights(weights: Weights) -> sparse.csr_array:
    given: Any = weights
    if given.dtype != np.float64 and given.dtype.kind not in "iub":
        raise TypeError(f"weights: found {given.dtype}, wanted float64 or integers")
    matrix: sparse.csr_array = sparse.csr_array(given.astype(np.float64))
    if not np.isfinite(matrix.data).all():
        raise ValueError("weights: found NaN or infinity, wanted finite numbers")
    matrix.eliminate_zeros()
    return matrix


def _connected_blocks(
    matrix: sparse.csr_array, unknown: NDArray[np.bool_]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Sums and unknown contributions, by connected part; parts without either are left out."""
    num_rows = matrix.shape[0]
    kept = matrix @ sparse.diags_array(unknown.astype(np.float64))
    both: Any = sparse.block_array([[None, kept], [kept.T, None]], format="csr")
    from scipy.sparse.csgraph import connected_components  # loaded where it is used

    _, part = connected_components(both, directed=False)
    order = np.argsort(part, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(part[order])) + 1):
        rows, columns = members[members < num_rows], members[members >= num_rows] - num_rows
        if rows.size and columns.size:
            _refuse_if_too_large(rows.size, columns.size)
            yield rows, columns


def _solve_block(
    block: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Null-space residual and amplification of every column; the singular values above rounding."""
    values, right = _right_singular(block)
    rank = int(np.count_nonzero(values > max(block.shape) * _EPS * values[0]))
    residual = np.linalg.norm(right[rank:], axis=0)
    amplification = np.linalg.norm(right[:rank] / values[:rank, None], axis=0)
    return residual, amplification, values[:rank]


def _right_singular(
    block: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Singular values, descending, and V^T with the null space; the cheapest stable way to each."""
    if len(block) == block.shape[1] and np.allclose(block, block.T, 4 * _EPS, 4 * _EPS):
        # |eigenvalues| and eigenvectors of a symmetric matrix, as accurate as an SVD and faster.
        eigenvalues, vectors = np.linalg.eigh(block)
        order = np.argsort(-np.abs(eigenvalues))
        return np.abs(eigenvalues[order]), vectors.T[order]
    # A tall block has the row space and the singular values of its triangular factor.
    square = np.linalg.qr(block, mode="r") if len(block) > block.shape[1] else block
    _, values, right = np.linalg.svd(square)
    return values, right


def _refuse_if_too_large(num_rows: int, num_columns: int) -> None:
    if max(num_rows, num_columns) > LARGEST_BLOCK:
        raise ConfigError(
            f"{num_rows} sums and {num_columns} contributions hang together; the exposure check "
            f"takes up to {LARGEST_BLOCK} of either"
        )


@dataclass(frozen=True)
class Term:
    """One client's part of a quantity.

    quantity  what is summed: a message's field, or a part of it
    round     when, or None where it never changes
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
    """Return how many like parts stand behind these terms."""
    return sum(term.count for term in terms)


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
